// Flow operators with a name: collection and emission run in sections.
package dev.tracetee.coroutines

import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.FlowCollector
import kotlinx.coroutines.flow.collectLatest as plainCollectLatest
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.transform

/** Collects in a section `collect:NAME`; [collector] handles each value in a section `collect:NAME:emit`. */
public suspend fun <T> Flow<T>.collect(name: String, collector: FlowCollector<T>) {
    val (all, each) = names("collect:", name, ":emit")
    traceCoroutine(all) {
        collect { value -> traceCoroutine(each) { collector.emit(value) } }
    }
}

/** Collects in a section `collect:NAME` and ignores the values. */
public suspend fun <T> Flow<T>.collect(name: String): Unit = traceCoroutine({ "collect:$name" }) { collect {} }

/** Collects the latest value in a section `collectLatest:NAME`; [action] runs in `collectLatest:NAME:action`. */
public suspend fun <T> Flow<T>.collectLatest(name: String, action: suspend (T) -> Unit) {
    val (all, each) = names("collectLatest:", name, ":action")
    traceCoroutine(all) {
        plainCollectLatest { value -> traceCoroutine(each) { action(value) } }
    }
}

/** Filters. [predicate] runs in a section `filter:NAME:predicate`, the downstream in `filter:NAME:emit`. */
public inline fun <T> Flow<T>.filter(name: String, crossinline predicate: suspend (T) -> Boolean): Flow<T> {
    val (judge, emit) = names("filter:", name, ":predicate", ":emit")
    return transform { value ->
        if (traceCoroutine(judge) { predicate(value) }) traceCoroutine(emit) { emit(value) }
    }
}

/** Maps. [transform] runs in a section `map:NAME:transform`, the downstream in `map:NAME:emit`. */
public inline fun <T, R> Flow<T>.map(name: String, crossinline transform: suspend (T) -> R): Flow<R> {
    val (make, emit) = names("map:", name, ":transform", ":emit")
    return transform { value ->
        val made = traceCoroutine(make) { transform(value) }
        traceCoroutine(emit) { emit(made) }
    }
}

/** Returns this flow with each collection in a section `flow:NAME`. */
public fun <T> Flow<T>.flowName(name: String): Flow<T> {
    val upstream = this
    return flow { traceCoroutine({ "flow:$name" }) { upstream.collect(this) } }
}

@PublishedApi
internal fun names(kind: String, name: String, vararg ends: String): Pair<String, String> = when {
    !CoroutineTracing.isEnabled -> "" to ""
    ends.size == 1 -> "$kind$name" to "$kind$name${ends[0]}"
    else -> "$kind$name${ends[0]}" to "$kind$name${ends[1]}"
}
