package org.gradle.internal.compiler.java;

import java.util.Locale;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Function;
import javax.annotation.processing.Processor;
import javax.tools.JavaCompiler.CompilationTask;

/** Stand-in for the class of Gradle's compiler plugin, which gradle-api lacks: compiles, and records no dependencies. */
public class IncrementalCompileTask implements CompilationTask {
    private final CompilationTask task;

    public IncrementalCompileTask(
            CompilationTask task, Function<?, ?> a, Consumer<?> b, Consumer<?> c, BiConsumer<?, ?> d, BiConsumer<?, ?> e) {
        this.task = task;
    }

    public void addModules(Iterable<String> modules) { task.addModules(modules); }

    public void setProcessors(Iterable<? extends Processor> processors) { task.setProcessors(processors); }

    public void setLocale(Locale locale) { task.setLocale(locale); }

    public Boolean call() { return task.call(); }
}
