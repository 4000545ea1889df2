// The options of a manual capture; CaptureJson.kt of the library writes them for the agent.
package dev.tracetee

import java.io.File

/**
 * Options of a manual capture, for [Tracetee.startCapture]. All of them are optional.
 *
 * ```
 * CaptureOptions.Builder()
 *     .setCategories(CaptureOptions.Category.VIEW, CaptureOptions.Category.APP)
 *     .setMode(CaptureOptions.Mode.RING)
 *     .build()
 * ```
 */
public class CaptureOptions private constructor(builder: Builder) {
    /** See [Builder.setCategories]. */
    public val categories: Set<Category>? = builder.categories

    /** See [Builder.setPassOn]. */
    public val passOn: PassOn = builder.passOn

    /** See [Builder.setMode]. */
    public val mode: Mode = builder.mode

    /** See [Builder.setOutput]. */
    public val output: File? = builder.output

    /** See [Builder.setDurationMs]. */
    public val durationMs: Long? = builder.durationMs

    /** See [Builder.setFastPath]. */
    public val fastPath: Boolean = builder.fastPath

    /** See [Builder.setFrameCounters]. */
    public val frameCounters: Boolean = builder.frameCounters

    /** See [Builder.setCapacityKb]. */
    public val capacityKb: Long? = builder.capacityKb

    /** See [Builder.setBlockKb]. */
    public val blockKb: Int? = builder.blockKb

    /** See [Builder.setDirectory]. */
    public val directory: File? = builder.directory

    /** See [Builder.setRecoverTo]. */
    public val recoverTo: File? = builder.recoverTo

    /** See [Builder.setClock]. */
    public val clock: Clock = builder.clock

    /** See [Builder.setDrainCpuPercent]. */
    public val drainCpuPercent: Int? = builder.drainCpuPercent

    /** See [Builder.setPrecision]. */
    public val precision: Precision = builder.precision

    /** See [Builder.setMinSliceUs]. */
    public val minSliceUs: MinSliceUs = builder.minSliceUs

    /** See [Builder.setMainThreadOnly]. */
    public val mainThreadOnly: Boolean = builder.mainThreadOnly

    /** See [Builder.setRedaction]. */
    public val redaction: List<RedactionRule> = builder.redaction

    /** A category of the platform's markers; its name in lower case is the one that `atrace` has for it. */
    public enum class Category {
        GFX,
        INPUT,
        VIEW,
        WEBVIEW,
        WM,
        AM,
        SM,
        AUDIO,
        VIDEO,
        CAMERA,
        HAL,
        APP,
        RES,
        DALVIK,
        RS,
        BIONIC,
        POWER,
        PM,
        SS,
        DATABASE,
        NETWORK,
        ADB,
        VIBRATOR,
        AIDL,
        NNAPI,
        RRO,
        THERMAL,
    }

    /** Choice of the records that are also passed to the kernel. */
    public enum class PassOn {
        /** Records of categories that a system trace has enabled. */
        AUTO,

        /** All records. */
        ALWAYS,

        /** No record. */
        NEVER,
    }

    /** Behaviour when the memory is full. */
    public enum class Mode {
        /** Keeps the first records and drops later ones. */
        STARTUP,

        /** Overwrites the oldest records: a flight recorder. */
        RING,

        /** Streams records to the file of [Builder.setOutput] all the time, and to [Tracetee.listen]. */
        ENDLESS,

        /** Records nothing; all records go to the kernel. */
        SYSTRACE,
    }

    /** Clock that stamps the records. */
    public enum class Clock {
        /** The processor's counter, if it is reliable. */
        AUTO,

        /** The boot clock, by a system call. */
        BOOT,
    }

    /** Unit of the last digit of a time in the trace. */
    public enum class Precision {
        /** Microseconds, as the kernel writes. */
        US,

        /** Nanoseconds. */
        NS,
    }

    /**
     * Shortest sections that the trace has, in microseconds, up to 10 seconds; 0 keeps all.
     *
     * @property main of the main thread
     * @property render of threads named RenderThread
     * @property other of all other threads
     */
    public class MinSliceUs(public val main: Long, public val render: Long, public val other: Long)

    /** Builds [CaptureOptions]. Each setter returns this builder. */
    public class Builder {
        internal var categories: Set<Category>? = null
        internal var passOn: PassOn = PassOn.AUTO
        internal var mode: Mode = Mode.STARTUP
        internal var output: File? = null
        internal var durationMs: Long? = null
        internal var fastPath: Boolean = false
        internal var frameCounters: Boolean = false
        internal var capacityKb: Long? = null
        internal var blockKb: Int? = null
        internal var directory: File? = null
        internal var recoverTo: File? = null
        internal var clock: Clock = Clock.AUTO
        internal var drainCpuPercent: Int? = null
        internal var precision: Precision = Precision.US
        internal var minSliceUs: MinSliceUs = MinSliceUs(0, 0, 0)
        internal var mainThreadOnly: Boolean = false
        internal var redaction: List<RedactionRule> = emptyList()

        /** Sets the categories to record. Default: all. */
        public fun setCategories(vararg categories: Category): Builder = apply { this.categories = categories.toSet() }

        /** Sets the categories to record. Default (null): all. */
        public fun setCategories(categories: Collection<Category>?): Builder = apply { this.categories = categories?.toSet() }

        /** Sets which records are also passed to the kernel. Default: [PassOn.AUTO]. */
        public fun setPassOn(passOn: PassOn): Builder = apply { this.passOn = passOn }

        /** Sets the behaviour when the memory is full. Default: [Mode.STARTUP]. */
        public fun setMode(mode: Mode): Builder = apply { this.mode = mode }

        /** Sets the file of the streamed trace; [Mode.ENDLESS] requires one. `%p` in its path stands for the process id. Default: none. */
        public fun setOutput(file: File?): Builder = apply { output = file }

        /** Sets the time after which the capture ends automatically, in milliseconds; at most a day. Default (null): no limit. */
        public fun setDurationMs(ms: Long?): Builder = apply { durationMs = ms }

        /** Sets whether records are taken in libcutils' functions, before they are formatted. Default: false. */
        public fun setFastPath(fast: Boolean): Builder = apply { fastPath = fast }

        /**
         * Sets whether each frame's begin and end on the main thread and on render threads have the thread's counters: time
         * on a processor, time ready for one, page faults, switches. Some 2 to 4 microseconds a frame. Default: false.
         */
        public fun setFrameCounters(count: Boolean): Builder = apply { frameCounters = count }

        /** Sets the memory for all records, in KiB. Default (null): 16384. */
        public fun setCapacityKb(kb: Long?): Builder = apply { capacityKb = kb }

        /** Sets the memory that a thread takes at a time, in KiB: a power of two, 8 to 1024. Default (null): 16. */
        public fun setBlockKb(kb: Int?): Builder = apply { blockKb = kb }

        /** Sets the directory of a file with the memory, which survives a SIGKILL. Default (null): no file. */
        public fun setDirectory(directory: File?): Builder = apply { this.directory = directory }

        /**
         * Sets the directory for traces of what killed processes left in [directory]; a thread of the agent writes them at
         * the start. Default (null): none are written.
         */
        public fun setRecoverTo(directory: File?): Builder = apply { recoverTo = directory }

        /** Sets the clock that stamps the records. Default: [Clock.AUTO]. */
        public fun setClock(clock: Clock): Builder = apply { this.clock = clock }

        /** Sets the limit of the streaming thread of [Mode.ENDLESS], in percent of one core. Default (null): 20. */
        public fun setDrainCpuPercent(percent: Int?): Builder = apply { drainCpuPercent = percent }

        /** Sets the unit of the last digit of a time. Default: [Precision.US]. */
        public fun setPrecision(precision: Precision): Builder = apply { this.precision = precision }

        /** Sets the minimum duration of the sections in the trace. Default: all sections. */
        public fun setMinSliceUs(shortest: MinSliceUs): Builder = apply { minSliceUs = shortest }

        /** Sets whether the trace has the main thread only. Default: false. */
        public fun setMainThreadOnly(only: Boolean): Builder = apply { mainThreadOnly = only }

        /** Sets the rules that keep private data out of names; each is applied to the result of the previous one. Default: none. */
        public fun setRedaction(rules: List<RedactionRule>): Builder = apply { redaction = rules.toList() }

        /** Builds the options. [Tracetee.startCapture] validates them. */
        public fun build(): CaptureOptions = CaptureOptions(this)
    }
}

/**
 * Rule that keeps private data out of the names in a trace.
 *
 * @property pattern regular expression to search for in each name, in the syntax of the remote configuration's rules
 * @property action action for each match
 * @property except regular expression of the names to leave unchanged; null for none
 */
public class RedactionRule(public val pattern: String, public val action: Action, public val except: String?) {
    /** Creates a rule without exceptions. */
    public constructor(pattern: String, action: Action) : this(pattern, action, null)

    /** The action for a match. */
    public sealed class Action {
        /** Leaves out the whole record. */
        public object Drop : Action()

        /** Replaces the match by a hash: the same for the same text on one device. */
        public object Hash : Action()

        /** Replaces the match by [text]. */
        public class Replace(public val text: String) : Action()
    }
}
