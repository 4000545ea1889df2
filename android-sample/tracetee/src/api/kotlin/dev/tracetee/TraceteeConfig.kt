package dev.tracetee

/**
 * Settings that an app passes to [Tracetee.install]. All are optional.
 *
 * ```
 * TraceteeConfig.Builder()
 *     .setCollectorUrl("https://traces.example.com")
 *     .setToken(token)
 *     .build()
 * ```
 *
 * With neither [collectorUrl] nor [remoteConfig] the agent records nothing until the app calls
 * [Tracetee.startCapture] or [Tracetee.offerConfig].
 */
public class TraceteeConfig private constructor(builder: Builder) {
    /** See [Builder.setCollectorUrl]. */
    public val collectorUrl: String? = builder.collectorUrl

    /** See [Builder.setToken]. */
    public val token: String? = builder.token

    /** See [Builder.setRemoteConfig]. */
    public val remoteConfig: String? = builder.remoteConfig

    /** See [Builder.setPublicKey]. */
    public val publicKey: String? = builder.publicKey

    /** See [Builder.setConsent]. */
    public val consent: Boolean? = builder.consent

    /** See [Builder.setInstallId]. */
    public val installId: String? = builder.installId

    /** See [Builder.setDevice]. */
    public val device: Map<String, String> = builder.device

    /** See [Builder.setSegment]. */
    public val segment: Map<String, String> = builder.segment

    /** See [Builder.setSender]. */
    public val sender: Sender = builder.sender

    /** See [Builder.setScheduleUploads]. */
    public val scheduleUploads: Boolean = builder.scheduleUploads

    /** See [Builder.setStartWaitMs]. */
    public val startWaitMs: Int? = builder.startWaitMs

    /** See [Builder.setFrameVerdicts]. */
    public val frameVerdicts: Boolean = builder.frameVerdicts

    /** Builds a [TraceteeConfig]. Each setter returns this builder. */
    public class Builder {
        internal var collectorUrl: String? = null
        internal var token: String? = null
        internal var remoteConfig: String? = null
        internal var publicKey: String? = null
        internal var consent: Boolean? = null
        internal var installId: String? = null
        internal var device: Map<String, String> = emptyMap()
        internal var segment: Map<String, String> = emptyMap()
        internal var sender: Sender = HttpSender
        internal var scheduleUploads: Boolean = true
        internal var startWaitMs: Int? = null
        internal var frameVerdicts: Boolean = false

        /**
         * Sets the collector, `https://host[:port][/path]`: the agent fetches its configuration there and sends
         * captures there. Default: none.
         */
        public fun setCollectorUrl(url: String?): Builder = apply { collectorUrl = url }

        /** Sets the token that identifies the app at the collector. Default: none. */
        public fun setToken(token: String?): Builder = apply { this.token = token }

        /**
         * Sets a remote configuration that the app ships, as JSON (`agent/schema/remote-config.schema.json`). The
         * agent ignores it if it already has one with a higher `seq`. Default: none.
         */
        public fun setRemoteConfig(json: String?): Builder = apply { remoteConfig = json }

        /**
         * Sets the Ed25519 public key, 64 hexadecimal digits. The agent then accepts signed configurations only.
         * Default: none.
         */
        public fun setPublicKey(hex: String?): Builder = apply { publicKey = hex }

        /** Sets the user's consent. Default (null): the value of the last run; on the first run the user consents. */
        public fun setConsent(given: Boolean?): Builder = apply { consent = given }

        /**
         * Sets the identifier from which the agent decides whether this device is sampled. Default (null): a
         * random identifier that the agent keeps.
         */
        public fun setInstallId(id: String?): Builder = apply { installId = id }

        /**
         * Sets properties of the device for the collector, besides model and brand: at most 512 bytes as JSON.
         * Default: none.
         */
        public fun setDevice(properties: Map<String, String>): Builder = apply { device = properties.toMap() }

        /**
         * Sets attributes of this installation, for example `mapOf("plan" to "premium")`. The ledger counts each combination
         * of values separately: at most 4 attributes, each with few values, names and values of at most 64 bytes. Default:
         * none.
         */
        public fun setSegment(attributes: Map<String, String>): Builder = apply { segment = attributes.toMap() }

        /** Sets the HTTP client. Default: [HttpSender]. */
        public fun setSender(sender: Sender): Builder = apply { this.sender = sender }

        /**
         * Sets whether the library schedules uploads with JobScheduler. An app that sets false calls
         * [Tracetee.upload] itself. Default: true.
         */
        public fun setScheduleUploads(schedule: Boolean): Builder = apply { scheduleUploads = schedule }

        /**
         * Sets how long [Tracetee.install] waits for files, in milliseconds, 0 to 10000, if the configuration of the
         * last run may record something from the app's start on. A start that takes longer is recorded late.
         * Default (null): 3.
         */
        public fun setStartWaitMs(ms: Int?): Builder = apply { startWaitMs = ms }

        /**
         * Sets whether captures contain the platform's verdict on each frame of the app's activities: FrameMetrics (API 26),
         * the deadline before the frame ends (API 33), and the compositor's JankData (API 36; for surfaces of engines:
         * 37.2). Reports then distinguish frames that the compositor or the GPU delayed from those that the app delayed, and
         * [Tracetee.countFrames] counts frames. A thread of the library listens permanently. Default: false.
         */
        public fun setFrameVerdicts(record: Boolean): Builder = apply { frameVerdicts = record }

        /** Builds the settings. [Tracetee.install] validates them. */
        public fun build(): TraceteeConfig = TraceteeConfig(this)
    }
}
