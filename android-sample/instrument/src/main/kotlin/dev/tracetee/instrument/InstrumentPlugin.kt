// The Gradle plugin. It hands class visitors to the Android Gradle plugin.
package dev.tracetee.instrument

import com.android.build.api.artifact.ScopedArtifact
import com.android.build.api.instrumentation.AsmClassVisitorFactory
import com.android.build.api.instrumentation.ClassContext
import com.android.build.api.instrumentation.ClassData
import com.android.build.api.instrumentation.FramesComputationMode
import com.android.build.api.instrumentation.InstrumentationParameters
import com.android.build.api.instrumentation.InstrumentationScope
import com.android.build.api.variant.AndroidComponentsExtension
import com.android.build.api.variant.ScopedArtifacts
import java.io.File
import java.util.zip.ZipFile
import org.gradle.api.DefaultTask
import org.gradle.api.Plugin
import org.gradle.api.Project
import org.gradle.api.file.Directory
import org.gradle.api.file.RegularFile
import org.gradle.api.file.RegularFileProperty
import org.gradle.api.provider.ListProperty
import org.gradle.api.provider.Property
import org.gradle.api.tasks.CacheableTask
import org.gradle.api.tasks.Classpath
import org.gradle.api.tasks.Input
import org.gradle.api.tasks.OutputFile
import org.gradle.api.tasks.TaskAction
import org.objectweb.asm.ClassReader
import org.objectweb.asm.ClassVisitor
import org.objectweb.asm.Opcodes

/**
 * Settings of the plugin `dev.tracetee.instrument`:
 *
 * ```
 * tracetee {
 *     include.add("com.example.**")
 *     exclude.add("com.example.generated.**")
 *     libraries = true        // also classes of libraries
 *     variants.add("benchmark")
 * }
 * ```
 *
 * The task `traceteeMapping<Variant>` writes `build/outputs/tracetee/<variant>/mapping.txt`.
 */
public abstract class TraceteeExtension {
    /**
     * Patterns of the classes and methods to instrument, such as `com.example.**` or `com.example.Main#on*`. `*`
     * matches part of a name without dots, `**` one with dots. Default: all classes.
     */
    public abstract val include: ListProperty<String>

    /** Patterns of the classes and methods to exclude, even if [include] matches them. */
    public abstract val exclude: ListProperty<String>

    /** Skips getters, setters and other trivial methods. Default: true. */
    public abstract val skipTrivial: Property<Boolean>

    /** Instruments classes of libraries too. Default: false. */
    public abstract val libraries: Property<Boolean>

    /** Names of the variants to instrument. Default: all variants. */
    public abstract val variants: ListProperty<String>
}

/** The Gradle plugin `dev.tracetee.instrument`. */
public class InstrumentPlugin : Plugin<Project> {
    override fun apply(project: Project) {
        val settings = project.extensions.create("tracetee", TraceteeExtension::class.java)
        settings.skipTrivial.convention(true)
        settings.libraries.convention(false)
        project.plugins.withId("com.android.application") { attach(project, settings) }
        project.plugins.withId("com.android.library") { attach(project, settings) }
    }

    private fun attach(project: Project, settings: TraceteeExtension) {
        val components = project.extensions.getByType(AndroidComponentsExtension::class.java)
        components.onVariants(components.selector().all()) { variant ->
            val wanted = settings.variants.get()
            if (wanted.isNotEmpty() && variant.name !in wanted) return@onVariants
            val scope = if (settings.libraries.get()) InstrumentationScope.ALL else InstrumentationScope.PROJECT
            variant.instrumentation.transformClassesWith(VisitorFactory::class.java, scope) { parameters ->
                parameters.include.set(settings.include)
                parameters.exclude.set(settings.exclude)
                parameters.skipTrivial.set(settings.skipTrivial)
            }
            // The instrumenter writes the frames of its handlers itself.
            variant.instrumentation.setAsmFramesComputationMode(FramesComputationMode.COPY_FRAMES)
            val name = "traceteeMapping" + variant.name.replaceFirstChar(Char::uppercase)
            val mapping = project.tasks.register(name, MappingTask::class.java) { task ->
                task.description = "Writes the mapping from ids to methods of ${variant.name}."
                task.group = "tracetee"
                task.include.set(settings.include)
                task.exclude.set(settings.exclude)
                task.skipTrivial.set(settings.skipTrivial)
                task.mapping.set(project.layout.buildDirectory.file("outputs/tracetee/${variant.name}/mapping.txt"))
            }
            val artifacts = ScopedArtifacts.Scope.ALL.takeIf { settings.libraries.get() } ?: ScopedArtifacts.Scope.PROJECT
            variant.artifacts.forScope(artifacts).use(mapping)
                .toGet(ScopedArtifact.CLASSES, MappingTask::jars, MappingTask::directories)
        }
    }
}

/** Creates the visitor of a class, in a Gradle worker. Gradle instantiates it. */
internal abstract class VisitorFactory : AsmClassVisitorFactory<VisitorFactory.Parameters> {
    /** Settings that Gradle passes to its workers. */
    public interface Parameters : InstrumentationParameters {
        /** See [TraceteeExtension.include]. */
        @get:Input public val include: ListProperty<String>

        /** See [TraceteeExtension.exclude]. */
        @get:Input public val exclude: ListProperty<String>

        /** See [TraceteeExtension.skipTrivial]. */
        @get:Input public val skipTrivial: Property<Boolean>
    }

    private fun rules() = parameters.get().run { Rules(include.get(), exclude.get(), skipTrivial.get()) }

    override fun createClassVisitor(classContext: ClassContext, nextClassVisitor: ClassVisitor): ClassVisitor =
        Transformer(rules(), HashedIds).visitor(nextClassVisitor)

    override fun isInstrumentable(classData: ClassData): Boolean = rules().mayInclude(classData.className)
}

/**
 * Writes the mapping file of a variant. Works on classes before and after instrumentation, because an id depends on
 * its method alone.
 */
@CacheableTask
internal abstract class MappingTask : DefaultTask() {
    /** Jars with the variant's classes. */
    @get:Classpath public abstract val jars: ListProperty<RegularFile>

    /** Directories with the variant's classes. */
    @get:Classpath public abstract val directories: ListProperty<Directory>

    /** See [TraceteeExtension.include]. */
    @get:Input public abstract val include: ListProperty<String>

    /** See [TraceteeExtension.exclude]. */
    @get:Input public abstract val exclude: ListProperty<String>

    /** See [TraceteeExtension.skipTrivial]. */
    @get:Input public abstract val skipTrivial: Property<Boolean>

    /** The mapping file. */
    @get:OutputFile public abstract val mapping: RegularFileProperty

    /** Writes the mapping file. */
    @TaskAction
    public fun write() {
        val classes = directories.get().asSequence().flatMap { it.asFile.walk() }.filter { it.extension == "class" }
            .map(File::readBytes) + jars.get().asSequence().flatMap { jar -> classesOf(jar.asFile) }
        val transformer = Transformer(Rules(include.get(), exclude.get(), skipTrivial.get()), HashedIds)
        val methods = classes.flatMap { InstrumentedMethods.orWouldBe(it, transformer) }.toList()
        val shared = methods.groupBy { it.id }.values.filter { it.size > 1 }
        shared.forEach { same -> logger.warn("tracetee: these methods share an id: ${same.joinToString { it.line() }}") }
        mapping.get().asFile.writeText(methods.sortedBy { it.line() }.joinToString("") { it.line() + "\n" })
    }

    private fun classesOf(jar: File): Sequence<ByteArray> = sequence {
        ZipFile(jar).use { zip ->
            for (entry in zip.entries()) {
                if (entry.name.endsWith(".class")) yield(zip.getInputStream(entry).use { it.readBytes() })
            }
        }
    }
}

/** Finds the methods of a class that have a section. */
internal object InstrumentedMethods {
    /** Returns the methods that have a section, or, in a class that is not instrumented, would have one. */
    fun orWouldBe(classFile: ByteArray, transformer: Transformer): List<Method> =
        of(classFile, Target.LIBRARY.owner).ifEmpty { transformer.transform(classFile).methods }

    fun of(classFile: ByteArray, target: String): List<Method> {
        val found = ArrayList<Method>()
        val reader = ClassReader(classFile)
        val visitor = object : ClassVisitor(TracingVisitor.API) {
            override fun visitMethod(access: Int, name: String, descriptor: String, signature: String?, exceptions: Array<out String>?) =
                object : org.objectweb.asm.MethodVisitor(TracingVisitor.API) {
                    private var constant: String? = null

                    override fun visitLdcInsn(value: Any?) {
                        constant = value as? String
                    }

                    override fun visitMethodInsn(opcode: Int, owner: String, called: String, signature: String, isInterface: Boolean) {
                        val id = constant?.toLongOrNull()
                        if (opcode == Opcodes.INVOKESTATIC && owner == target && called == Target.LIBRARY.begin && id != null) {
                            found.add(Method(id, access, reader.className, name, descriptor))
                        }
                        constant = null
                    }
                }
        }
        reader.accept(visitor, ClassReader.SKIP_DEBUG or ClassReader.SKIP_FRAMES)
        return found
    }
}
