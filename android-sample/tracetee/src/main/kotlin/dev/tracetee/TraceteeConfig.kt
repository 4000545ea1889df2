package dev.tracetee

/**
 * What an app says once, at its start. All of it is optional: without [collectorUrl] and [remoteConfig] the
 * agent waits for [Tracetee.startCapture] and [Tracetee.offerConfig].
 *
 * @property collectorUrl where captures go and the configuration comes from, `https://host[:port][/path]`
 * @property token what identifies the app there
 * @property remoteConfig a configuration of the app's own, as JSON (`agent/schema/remote-config.schema.json`),
 *   offered at the start; one that the collector has sent since stays in force when its `seq` is higher
 * @property publicKey the Ed25519 key, 64 hexadecimal digits, that must have signed configurations
 * @property consent whether the user consents; null: what was said last, at first yes
 * @property installId what decides whether this device is sampled; null: a random one that stays
 * @property device what else the collector is to know of the device; up to 512 bytes as JSON
 * @property sender the app's HTTP client
 * @property uploads whether the library schedules uploads itself, by JobScheduler; false: the app calls
 *   [Tracetee.upload]
 * @property tickets the collector is asked for each capture's address first (presigned ones of S3)
 */
class TraceteeConfig(
    val collectorUrl: String? = null,
    val token: String? = null,
    val remoteConfig: String? = null,
    val publicKey: String? = null,
    val consent: Boolean? = null,
    val installId: String? = null,
    val device: Map<String, String> = emptyMap(),
    val sender: Sender = HttpSender,
    val uploads: Boolean = true,
    val tickets: Boolean = false,
)
