// Uses third-party libraries as an app does, and prints the results, which must be the same after the libraries
// were rewritten. At the end it prints whether their sections are balanced.
@file:JvmName("Uses")

import arrow.core.Either
import arrow.core.raise.either
import arrow.core.raise.ensure
import com.google.common.cache.CacheBuilder
import com.google.common.collect.ImmutableListMultimap
import com.google.common.hash.Hashing
import com.google.gson.GsonBuilder
import com.google.gson.JsonSyntaxException
import com.google.gson.reflect.TypeToken
import com.sun.net.httpserver.HttpServer
import dev.tracetee.tests.Balance
import java.io.IOException
import java.net.InetSocketAddress
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.asFlow
import kotlinx.coroutines.flow.flatMapMerge
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.supervisorScope
import kotlinx.coroutines.withContext
import kotlinx.coroutines.withTimeoutOrNull
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody

class Person(val name: String, val friends: List<Person> = emptyList(), val age: Int? = null)

fun main() {
    gson()
    guava()
    coroutines()
    serialization()
    arrow()
    okhttp()
    val open = Balance.open()
    println("stray ends ${Balance.STRAY_ENDS}, open at the end $open")
    System.err.println("${Balance.BEGINS} sections")
    System.exit(0)
}

private fun gson() {
    val gson = GsonBuilder().setPrettyPrinting().create()
    val text = gson.toJson(Person("Ada", listOf(Person("Grace", age = 85))))
    println(text)
    println(gson.fromJson(text, Person::class.java).friends[0].age)
    println(gson.fromJson<Map<String, List<Int>>>("""{"a":[1,2]}""", object : TypeToken<Map<String, List<Int>>>() {}.type))
    try {
        gson.fromJson("""{"name": [}""", Person::class.java)
    } catch (error: JsonSyntaxException) {
        println("gson: ${error.message}")
    }
}

private fun guava() {
    println(ImmutableListMultimap.builder<String, Int>().put("a", 1).putAll("b", 2, 3).build().inverse())
    println(Hashing.murmur3_128().hashUnencodedChars("tracetee"))
    val cache = CacheBuilder.newBuilder().maximumSize(2).build<String, Int>()
    println((1..5).map { cache.get("k${it % 3}") { it * 10 } })
    try {
        cache.get("bad") { throw IOException("loader") }
    } catch (error: ExecutionException) {
        println("guava: ${error.cause}")
    }
}

@OptIn(kotlinx.coroutines.ExperimentalCoroutinesApi::class)
private fun coroutines() = runBlocking {
    println((1..50).map { n -> async(Dispatchers.Default) { delay(1); n * n } }.awaitAll().sum())
    println(listOf(3, 1, 2).asFlow().flatMapMerge { n -> (1..n).asFlow() }.toList().sorted())
    val channel = Channel<Int>(2)
    launch { repeat(5) { channel.send(it) }; channel.close() }
    println(channel.iterator().let { iterator -> buildList { while (iterator.hasNext()) add(iterator.next()) } })
    println(withTimeoutOrNull(10) { delay(10_000); 1 })
    val never = launch { try { CompletableDeferred<Unit>().await() } finally { println("cancelled") } }
    delay(1)
    never.cancelAndJoin()
    supervisorScope {
        val failing = async { withContext(Dispatchers.IO) { throw IOException("in a coroutine") } }
        try {
            failing.await()
        } catch (error: IOException) {
            println("coroutines: ${error.message}")
        }
    }
}

private fun serialization() {
    val made = buildJsonObject {
        put("n", 42)
        putJsonArray("list") { for (i in 1..3) add(kotlinx.serialization.json.JsonPrimitive("x$i")) }
    }
    println(Json { prettyPrint = true }.encodeToString(kotlinx.serialization.json.JsonElement.serializer(), made))
    println(Json.parseToJsonElement(made.toString()).jsonObject.getValue("list").jsonArray.size)
    try {
        Json.parseToJsonElement("{\"a\": [1, 2")
    } catch (error: IllegalArgumentException) {
        println("serialization: ${error.message?.lineSequence()?.first()}")
    }
}

private fun arrow() {
    fun half(n: Int): Either<String, Int> = either {
        ensure(n % 2 == 0) { "$n is odd" }
        n / 2
    }
    println(listOf(42, 7).map(::half))
}

private fun okhttp() {
    val server = HttpServer.create(InetSocketAddress("127.0.0.1", 0), 0)
    server.createContext("/echo") { exchange ->
        val body = exchange.requestBody.readBytes().reversedArray()
        exchange.responseHeaders.add("X-Method", exchange.requestMethod)
        exchange.sendResponseHeaders(if (body.isEmpty()) 404 else 200, body.size.toLong().let { if (it == 0L) -1 else it })
        exchange.responseBody.use { it.write(body) }
    }
    server.start()
    val client = OkHttpClient.Builder().callTimeout(10, TimeUnit.SECONDS).build()
    val url = "http://127.0.0.1:${server.address.port}/echo"
    client.newCall(Request.Builder().url(url).post("tracetee".toRequestBody("text/plain".toMediaType())).build()).execute().use {
        println("${it.code} ${it.header("X-Method")} ${it.body.string()}")
    }
    client.newCall(Request.Builder().url(url).build()).execute().use { println(it.code) }
    server.stop(0)
    try {
        client.newCall(Request.Builder().url(url).build()).execute()
    } catch (error: IOException) {
        println("okhttp: ${error.javaClass.simpleName}")
    }
    client.dispatcher.executorService.shutdown()
    client.connectionPool.evictAll()
}
