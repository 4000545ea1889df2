// The budget of profiles beside the platform's limiter: the module's own, if its class RateLimiterOracle is on the class path
// (tests/android/run profiling with TRACETEE_RATE_LIMITER=DIRECTORY), otherwise a plain sum over all that was allowed.
package dev.tracetee

import java.util.Random

private const val MINUTE_MS = 60_000L
private const val WEEK_MS = 7 * 24 * 60 * MINUTE_MS

/** A limiter that goes by the wall clock alone, as the platform's does. */
private class Limiter {
    private val oracle = try {
        Class.forName("RateLimiterOracle").getConstructor().newInstance()
    } catch (_: ClassNotFoundException) {
        null
    }
    private val allowed = ArrayList<Pair<Long, Int>>()
    val isOracle = oracle != null

    fun allows(wallMs: Long, cost: Int): Boolean {
        if (oracle != null) {
            val method = oracle.javaClass.getMethod("isAllowed", Long::class.java, Int::class.java)
            return method.invoke(oracle, wallMs, cost) as Boolean
        }
        val fits = listOf(60L to 10, 24 * 60L to 20, 7 * 24 * 60L to 30).all { (minutes, most) ->
            allowed.filter { it.first > wallMs - minutes * MINUTE_MS }.sumOf { it.second } + cost <= most
        }
        if (fits) allowed += wallMs to cost
        return fits
    }
}

/** Device time: [boot] and [bootMs] go on; somebody may set [realMs]. */
private class Clocks {
    var boot = 1L
    var bootMs = 1_000L
    var realMs = 1_790_000_000_000L

    /** Time that has passed, whatever the clocks say. */
    var trueMs = 0L

    fun pass(ms: Long) {
        bootMs += ms
        realMs += ms
        trueMs += ms
    }

    fun now() = Moment(boot, bootMs, realMs)
}

/** Asks the budget as [ProfilingSource] does. */
private fun ProfilingState.asks(cost: Int, clocks: Clocks): Boolean {
    if (refusal(cost, PLATFORM_LIMITS, clocks.now()) != null) return false
    spent += clocks.now() to cost
    return true
}

/** On clocks that go evenly, also over reboots, both decide alike, each time. */
fun budgetIsThatOfThePlatform(): String {
    val state = ProfilingState()
    val limiter = Limiter()
    val clocks = Clocks()
    val random = Random(7)
    var allowed = 0
    repeat(20_000) { round ->
        clocks.pass((random.nextDouble() * random.nextDouble() * 10 * 60 * MINUTE_MS).toLong())
        if (random.nextInt(200) == 0) {
            clocks.boot += 1
            clocks.bootMs = 0
        }
        val cost = if (random.nextInt(4) == 0) ProfilingSource.COST_OF_TRIGGER else ProfilingSource.COST_OF_REQUEST
        // The ledger is written and read again between decisions.
        if (round % 50 == 0) {
            val again = ProfilingState.parse(state.toJson().toString())
            state.spent.clear()
            state.spent += again.spent
        }
        val (ours, theirs) = state.asks(cost, clocks) to limiter.allows(clocks.realMs, cost)
        check(ours == theirs) { "round $round: we say $ours, the platform $theirs" }
        if (ours) allowed += 1
    }
    return "20000 decisions, $allowed allowed, as ${if (limiter.isOracle) "the module's RateLimiter" else "the sum"}"
}

/** However the wall clock is set, the app never spends more in true time than it may. */
fun budgetHoldsWhenTheClockJumps() {
    val state = ProfilingState()
    val limiter = Limiter()
    val clocks = Clocks()
    val random = Random(11)
    val spent = ArrayList<Pair<Long, Int>>()
    var refused = 0
    repeat(20_000) {
        clocks.pass((random.nextDouble() * 60 * MINUTE_MS).toLong())
        if (random.nextInt(20) == 0) clocks.realMs += if (random.nextBoolean()) WEEK_MS else -WEEK_MS
        if (!state.asks(ProfilingSource.COST_OF_REQUEST, clocks)) return@repeat
        spent += clocks.trueMs to ProfilingSource.COST_OF_REQUEST
        // After a jump back the platform may still refuse: its answer is a loss with a reason.
        if (!limiter.allows(clocks.realMs, ProfilingSource.COST_OF_REQUEST)) refused += 1
    }
    for (limit in PLATFORM_LIMITS) {
        spent.forEachIndexed { from, (startMs, _) ->
            val sum = spent.drop(from).takeWhile { it.first - startMs < limit.withinMs }.sumOf { it.second }
            check(sum <= limit.cost) { "${limit.name}: $sum from $startMs ms on" }
        }
    }
    check(spent.size > 100 && refused in 1 until spent.size) { "${spent.size} asked for, $refused refused by the platform" }
}

/** A jump alone: a week ahead gives nothing, a week back takes nothing for long. */
fun jumpsOfAWeekChangeNothing() {
    for (jump in listOf(WEEK_MS, -WEEK_MS)) {
        val (state, clocks) = ProfilingState() to Clocks()
        check(state.asks(10, clocks))
        clocks.realMs += jump
        clocks.pass(59 * MINUTE_MS)
        check(!state.asks(10, clocks)) { "59 minutes and a jump of $jump ms" }
        clocks.pass(MINUTE_MS)
        check(state.asks(10, clocks)) { "an hour and a jump of $jump ms" }
    }
    // A reboot with a jump back: the time since the boot has passed for certain.
    val (state, clocks) = ProfilingState() to Clocks()
    check(state.asks(10, clocks))
    clocks.boot += 1
    clocks.bootMs = 0
    clocks.realMs -= WEEK_MS
    clocks.pass(59 * MINUTE_MS)
    check(!state.asks(10, clocks)) { "59 minutes after a reboot" }
    clocks.pass(MINUTE_MS)
    check(state.asks(10, clocks)) { "an hour after a reboot" }
}
