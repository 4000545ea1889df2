import java.io.File;
import java.util.List;
import java.util.Map;
import org.gradle.api.internal.StartParameterInternal;
import org.gradle.api.logging.LogLevel;
import org.gradle.initialization.DefaultBuildCancellationToken;
import org.gradle.initialization.DefaultBuildRequestContext;
import org.gradle.initialization.DefaultBuildRequestMetaData;
import org.gradle.initialization.NoOpBuildEventConsumer;
import org.gradle.internal.buildprocess.BuildProcessState;
import org.gradle.internal.classpath.ClassPath;
import org.gradle.internal.instrumentation.agent.AgentStatus;
import org.gradle.internal.logging.LoggingManagerInternal;
import org.gradle.internal.logging.services.DefaultLoggingManagerFactory;
import org.gradle.internal.logging.services.LoggingServiceRegistry;
import org.gradle.internal.nativeintegration.services.NativeServices;
import org.gradle.internal.service.ServiceRegistry;
import org.gradle.internal.watch.registry.WatchMode;
import org.gradle.launcher.exec.BuildActionResult;
import org.gradle.launcher.exec.BuildExecutor;
import org.gradle.launcher.exec.DefaultBuildActionParameters;
import org.gradle.tooling.internal.provider.action.ExecuteBuildAction;

/**
 * Stand-in for Gradle's command line, which gradle-api lacks: runs a build in this process.
 * Usage: RunGradle USER_HOME PROJECT TASK…
 */
public class RunGradle {
    public static void main(String[] arguments) throws Exception {
        File home = new File(arguments[0]).getCanonicalFile();
        File project = new File(arguments[1]).getCanonicalFile();
        home.mkdirs();
        StartParameterInternal start = new StartParameterInternal();
        start.setGradleUserHomeDir(home);
        start.setProjectDir(project);
        start.setCurrentDir(project);
        start.setLogLevel(LogLevel.LIFECYCLE);
        start.setWatchFileSystemMode(WatchMode.DISABLED);
        start.setMaxWorkerCount(2);
        start.setParallelProjectExecutionEnabled(true);
        start.setTaskNames(List.of(arguments).subList(2, arguments.length));
        NativeServices.initializeOnDaemon(home, NativeServices.NativeServicesMode.fromSystemProperties());
        ServiceRegistry services = LoggingServiceRegistry.newCommandLineProcessLogging();
        LoggingManagerInternal logging = services.get(DefaultLoggingManagerFactory.class).create();
        logging.setLevelInternal(start.getLogLevel());
        logging.attachProcessConsole(org.gradle.api.logging.configuration.ConsoleOutput.Plain);
        logging.captureSystemSources();
        logging.start();
        boolean failed;
        try (BuildProcessState process = new BuildProcessState(
                false, AgentStatus.disabled(), ClassPath.EMPTY, services, NativeServices.getInstance())) {
            BuildActionResult result = process.getServices().get(BuildExecutor.class).execute(
                    new ExecuteBuildAction(start),
                    new DefaultBuildActionParameters(
                            System.getProperties(), System.getenv(), project, start.getLogLevel(), false, ClassPath.EMPTY),
                    new DefaultBuildRequestContext(
                            new DefaultBuildRequestMetaData(System.currentTimeMillis(), false),
                            new DefaultBuildCancellationToken(),
                            new NoOpBuildEventConsumer()));
            failed = result.hasFailure();
        } finally {
            logging.stop();
        }
        System.exit(failed ? 1 : 0);
    }
}
