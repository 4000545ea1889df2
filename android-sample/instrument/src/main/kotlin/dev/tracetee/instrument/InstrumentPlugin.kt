// The front for apps: a Gradle plugin over the Android Gradle plugin's class visitors.
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
 * `plugins { id("dev.tracetee.instrument") }`, and:
 *
 * ```
 * tracetee {
 *     include.add("com.example.**")
 *     exclude.add("com.example.generated.**")
 *     libraries = true        // not only the project's own classes
 *     variants.add("benchmark")
 * }
 * ```
 *
 * The task `traceteeMapping<Variant>` writes `build/outputs/tracetee/<variant>/mapping.txt`.
 */
abstract class TraceteeExtension {
    /** Patterns of [Rules]. */
    abstract val include: ListProperty<String>
    abstract val exclude: ListProperty<String>

    /** Getters and setters are left alone. Default true. */
    abstract val skipTrivial: Property<Boolean>

    /** Classes of libraries too. Default false. */
    abstract val libraries: Property<Boolean>

    /** The names of the variants; none: all. */
    abstract val variants: ListProperty<String>
}

/** The plugin. */
class InstrumentPlugin : Plugin<Project> {
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
            // The handler's frames are written as they have to be; nothing is to be computed.
            variant.instrumentation.setAsmFramesComputationMode(FramesComputationMode.COPY_FRAMES)
            val name = "traceteeMapping" + variant.name.replaceFirstChar(Char::uppercase)
            val mapping = project.tasks.register(name, MappingTask::class.java) { task ->
                task.description = "Writes which id is which method of ${variant.name}."
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

/** Makes the visitor of a class, in whatever worker of Gradle's. */
abstract class VisitorFactory : AsmClassVisitorFactory<VisitorFactory.Parameters> {
    /** What goes to the workers. */
    interface Parameters : InstrumentationParameters {
        @get:Input val include: ListProperty<String>
        @get:Input val exclude: ListProperty<String>
        @get:Input val skipTrivial: Property<Boolean>
    }

    private fun rules() = parameters.get().run { Rules(include.get(), exclude.get(), skipTrivial.get()) }

    override fun createClassVisitor(classContext: ClassContext, nextClassVisitor: ClassVisitor): ClassVisitor =
        Transformer(rules(), HashedIds).visitor(nextClassVisitor)

    override fun isInstrumentable(classData: ClassData): Boolean = rules().mayInclude(classData.className)
}

/**
 * Writes the mapping of a variant's classes, whether they come to it before they are instrumented or behind: an
 * id is made from its method alone.
 */
@CacheableTask
abstract class MappingTask : DefaultTask() {
    @get:Classpath abstract val jars: ListProperty<RegularFile>
    @get:Classpath abstract val directories: ListProperty<Directory>
    @get:Input abstract val include: ListProperty<String>
    @get:Input abstract val exclude: ListProperty<String>
    @get:Input abstract val skipTrivial: Property<Boolean>
    @get:OutputFile abstract val mapping: RegularFileProperty

    @TaskAction
    fun write() {
        val classes = directories.get().asSequence().flatMap { it.asFile.walk() }.filter { it.extension == "class" }
            .map(File::readBytes) + jars.get().asSequence().flatMap { jar -> classesOf(jar.asFile) }
        val transformer = Transformer(Rules(include.get(), exclude.get(), skipTrivial.get()), HashedIds)
        val methods = classes.flatMap { InstrumentedMethods.orWouldBe(it, transformer) }.toList()
        val shared = methods.groupBy { it.id }.values.filter { it.size > 1 }
        shared.forEach { same -> logger.warn("tracetee: one id for ${same.joinToString { it.line() }}") }
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

/** The methods of a class that have a section. */
internal object InstrumentedMethods {
    /** Those of an instrumented class; of another one those that would have a section. */
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
