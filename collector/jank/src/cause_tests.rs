//! Each rule of causes by a name as the platform, a library or an engine writes it, with the key under which its time is
//! added up, and names like it that are sections of an app. A rule that could be dropped or made wider unnoticed fails.

use super::Cause::{
    Binder, Buffer, ClassLoading, Compose, Gc, Gpu, Graphics, Inflate, Io, Jit, Lock, RenderWait,
    Resources, Section, System,
};
use super::*;
use crate::name_index::NameIndex;
use crate::tests::sched_text::{MAIN, RENDER, Text};

/// A name, its cause, its key (`=`: the name), names of sections that are like it.
type Row = (&'static str, Cause, &'static str, &'static [&'static str]);

const CAUSES: &[Row] = &[
    ("GC: Wait For Completion Alloc", Gc, "=", &["Log.GC: paused", "GC:paused"]),
    ("WaitForGcToComplete", Gc, "=", &["MyWaitForGcToComplete"]),
    ("Background concurrent copying GC", Gc, "=", &["concurrent copying"]),
    ("Background young concurrent mark compact GC", Gc, "=", &["mark compact GC"]),
    ("partial concurrent mark sweep GC", Gc, "=", &["mark sweep"]),
    ("(Paused)ClearCards", Gc, "=", &["player(Paused)", "(Paused by user)"]),
    ("Trim", Gc, "=", &["TrimMaps", "Video.Trim"]),
    ("CollectNewGeneration", Gc, "=", &["Heap::CollectNewGeneration"]),
    ("CollectOldGeneration", Gc, "=", &["Heap::CollectOldGeneration"]),
    ("GC.Collect", Gc, "=", &["System.GC.Collect"]),
    (
        "monitor contention with owner main (25653) at boolean android.os.MessageQueue.enqueueMessage(android.os.Message, \
         long)(MessageQueue.java:549) waiters=0 blocking from android.os.Message \
         android.os.MessageQueue.next()(MessageQueue.java:386)",
        Lock,
        "android.os.MessageQueue.next held by android.os.MessageQueue.enqueueMessage",
        &["a monitor contention with b"],
    ),
    (
        "Lock contention on a monitor lock (owner tid: 25653)",
        Lock,
        "Lock contention on a monitor lock",
        &["Log: Lock contention on x", "Lock contention only"],
    ),
    (
        "Contending for pthread mutex",
        Lock,
        "=",
        &["Teams Contending for a cup", "Contending forces"],
    ),
    (
        "SuspendThreadByThreadId suspended main id=25653",
        Lock,
        "SuspendThreadByThreadId suspended main id",
        &["ThreadList::SuspendThreadByPeer"],
    ),
    ("binder transaction", Binder, "=", &["my binder transaction"]),
    ("binder reply", Binder, "=", &["my binder reply"]),
    ("AIDL::java::IActivityManager::getTasks::client", Binder, "=", &["MyAIDL::call", "AIDL:call"]),
    ("HIDL::IPower::powerHint::client", Binder, "=", &["MyHIDL::call", "HIDL:call"]),
    ("inflate", Inflate, "=", &["inflateHeader", "Zip.inflate"]),
    ("AssetManager::OpenXmlAsset(res/layout/feed.xml)", Resources, "=", &["MyAssetManager.open"]),
    ("ResourcesManager#getResources", Resources, "=", &["TextResourcesManager#get"]),
    ("ResourcesImpl#updateConfiguration", Resources, "=", &["MyResourcesImpl#get"]),
    ("Theme::ApplyStyle", Resources, "=", &["AppTheme::apply", "Theme:apply"]),
    ("res/drawable-xxhdpi-v4/logo.png", Resources, "=", &["my/res/logo", "resume"]),
    ("assets/fonts/a.ttf", Resources, "=", &["my/assets/a", "assetsLoaded"]),
    ("ApkAssets::Load", Resources, "=", &["MyApkAssets::Load"]),
    ("LoadApkAssets(/product/overlay/Icons.apk)", Resources, "=", &["ReLoadApkAssets"]),
    ("createTypefaceFromFamily", Resources, "=", &["Fonts.createTypeface"]),
    ("ImageDecoder#decodeDrawable", Resources, "=", &["MyImageDecoder#decode", "ImageDecoderPool"]),
    (
        "BitmapFactory#decodeStream",
        Resources,
        "=",
        &["MyBitmapFactory#decode", "BitmapFactoryPool"],
    ),
    ("decodeBitmap", Resources, "=", &["Images.decodeBitmap"]),
    ("VerifyClass com.example.Feed", ClassLoading, "=", &["ReVerifyClass x", "VerifyClasses"]),
    ("InitializeClass", ClassLoading, "=", &["MyInitializeClass"]),
    ("OpenDexFilesFromOat(/data/app/base.apk)", ClassLoading, "=", &["MyOpenDexFile"]),
    ("Open dex file /data/app/base.apk", ClassLoading, "=", &["Log: Open dex file"]),
    ("dlopen: libnetd_client.so", ClassLoading, "=", &["my_dlopen"]),
    ("LoadNativeLibrary", ClassLoading, "=", &["MyLoadNativeLibrary"]),
    ("PathClassLoader", ClassLoading, "=", &["MyPathClassLoader"]),
    ("run dex2oat", ClassLoading, "=", &["dex2jar"]),
    ("Loading app image classes", ClassLoading, "=", &["Loading image of app"]),
    ("Lcom/example/Foo;", ClassLoading, "=", &["Lcom/example/Foo", "Link;", "com/example/Foo;"]),
    ("JIT compiling void a.b.c()", Jit, "=", &["My JIT compiling", "JITTER"]),
    ("Compiling", Jit, "=", &["CompilingQuery", "Query.Compiling"]),
    ("ScopedCodeCacheWrite", Jit, "=", &["ScopedCodeCacheWriter", "MyScopedCodeCacheWrite"]),
    ("dequeueBuffer", Buffer, "=", &["Audio.dequeueBuffer"]),
    ("waitForBufferRelease", Buffer, "=", &["Audio.waitForBufferRelease"]),
    ("waitForFreeSlotThenRelock", Buffer, "=", &["Chat.waitForFreeSlot"]),
    ("waitOnFences", Buffer, "=", &["My.waitOnFences"]),
    (
        "Waiting for GPU completion 4711",
        Gpu,
        "Waiting for GPU completion",
        &["Not Waiting for GPU"],
    ),
    (
        "waiting for GPU completion 4711",
        Gpu,
        "waiting for GPU completion",
        &["not waiting for GPU"],
    ),
    ("waiting for HWC release 4711", System, "waiting for HWC release", &["not waiting for HWC"]),
    ("postAndWait", RenderWait, "=", &["Handler.postAndWait"]),
    ("Gfx.WaitForPresentOnGfxThread", RenderWait, "=", &["MyGfx.WaitForPresent"]),
    ("Gfx.WaitForLastPresent", RenderWait, "=", &["MyGfx.WaitForLastPresent"]),
    ("Gfx.WaitForRenderThread", RenderWait, "=", &["MyGfx.WaitForRenderThread"]),
    ("SQLiteDatabase.open", Io, "=", &["MySQLite"]),
    ("sqlite3_step", Io, "=", &["my_sqlite3_step", "sqlite3x"]),
    ("QueuedWork.waitToFinish", Io, "=", &["MyQueuedWork"]),
    ("awaitLoadedSharedPreferences", Io, "=", &["SharedPreference"]),
    ("fsync", Io, "=", &["Cache.fsync"]),
    ("StrictMode policy violation", Io, "=", &["MyStrictMode"]),
    ("shader_compile", Graphics, "=", &["my_shader_compile"]),
    ("Upload 256x256 Texture", Graphics, "=", &["Photo Upload 3", "Uploader.run"]),
    ("Texture upload(7) 256x256", Graphics, "Texture upload(#) 256x256", &["My Texture upload"]),
    ("eglSwapBuffersWithDamageKHR", Graphics, "=", &["my_eglSwapBuffers"]),
    ("eglBeginFrame", Graphics, "=", &["my_eglBeginFrame"]),
    ("queueBuffer", Graphics, "=", &["Audio.queueBuffer"]),
    ("setSurfaceDamage", Graphics, "=", &["My.setSurfaceDamage"]),
    ("query", Graphics, "=", &["queryFeed", "Dao.query"]),
    ("flush commands", Graphics, "=", &["Log.flush commands"]),
    ("issueDrawCommands", Graphics, "=", &["reissueDrawCommands"]),
    ("flush layers", Graphics, "=", &["flush layers of the map", "Map.flush layers"]),
    ("vkQueuePresentKHR", Graphics, "=", &["my_vkQueuePresentKHR"]),
    ("vkQueueSubmit", Graphics, "=", &["my_vkQueueSubmit"]),
    ("Shader.CreateGPUProgram", Graphics, "=", &["MyShader.CreateGPUProgram"]),
    ("ShaderCompilation", Graphics, "=", &["MyShaderCompilation"]),
    ("Recomposer:recompose", Compose, "=", &["MyRecomposer:run", "Recomposers"]),
    ("Compose:onRemembered", Compose, "=", &["Mail.Compose:open", "ComposeMail"]),
    ("compose:lazy:prefetch:compose", Compose, "=", &["mail:compose:open", "composeMail"]),
    (
        "Recompose group because MutableState written in com.example.Feed.refresh",
        Compose,
        "recomposed because MutableState written in com.example.Feed.refresh",
        &["My.Recompose group"],
    ),
    ("Recompose group", Compose, "=", &["Recompose"]),
    (
        "com.example.Feed (Feed.kt:12)",
        Compose,
        "com.example.Feed",
        &[
            "Feed (3)",
            "Feed (Feed.java:12)",
            "Feed (Feed.kt:x)",
            "Feed (Feed.kt:)",
            " (Feed.kt:12)",
            "Feed (.kt:12)",
            "Feed.kt:12",
        ],
    ),
    (
        "androidx.compose.material3.Text (Text.kt:97)",
        Compose,
        "androidx.compose.material3.Text",
        &[],
    ),
    ("Feed.bind 12", Section, "Feed.bind", &[]),
];

/// Steps of the framework, and names of sections that are like them.
const NO_CAUSES: &[(&str, &[&str])] = &[
    ("Choreographer#doFrame 12", &["MyChoreographer#run", "ChoreographerPool"]),
    ("DrawFrames 12", &["Game.DrawFrame"]),
    ("input", &["inputFilter", "Form.input"]),
    ("animation", &["animations", "My.animation"]),
    ("insets_animation", &["insets_animations", "my_insets_animation"]),
    ("traversal", &["traversals", "Tree.traversal"]),
    ("commit", &["commitNow", "Db.commit"]),
    ("performTraversals", &["performTraversals2", "My.performTraversals"]),
    ("measure", &["measureText", "Feed.measure"]),
    ("layout", &["layoutFeed", "Feed.layout"]),
    ("draw", &["drawFeed", "Feed.draw"]),
    ("layouting", &["layouting2", "Feed.layouting"]),
    ("Record View#draw()", &["My Record View#draw()"]),
    ("scheduleTraversals", &["My.scheduleTraversals"]),
    ("relayoutWindow#first=true", &["My.relayoutWindow"]),
    ("deliverInputEvent src=0x1002", &["My.deliverInputEvent"]),
    ("HWUI:Process::CustomBindTexture", &["MyHWUI:run", "HWUIx"]),
    ("syncFrameState", &["syncFrameStates", "My.syncFrameState"]),
    ("prepareTree", &["prepareTrees", "My.prepareTree"]),
    ("draw-VRI[MainActivity]", &["redraw-VRI"]),
    ("layout-VRI[MainActivity]", &["relayout-VRI", "layout_x"]),
    ("measure-VRI[MainActivity]", &["remeasure-VRI", "measure_x"]),
    ("AndroidOwner:measureAndLayout", &["MyAndroidOwner:run", "AndroidOwners"]),
    ("Animator::BeginFrame", &["MyAnimator::run", "Animator:run"]),
    ("Engine::BeginFrame", &["MyEngine::BeginFrame"]),
    ("Shell::OnAnimatorBeginFrame", &["MyShell::OnAnimatorBeginFrame"]),
    ("GPURasterizer::Draw", &["MyGPURasterizer::Draw", "GPURasterizer:run"]),
    ("Rasterizer::DoDraw", &["MyRasterizer::run", "Rasterizer:run"]),
    ("VsyncProcessCallback", &["MyVsyncProcessCallback"]),
    ("PlayerLoop", &["PlayerLoops", "My.PlayerLoop"]),
    ("WaitForTargetFPS", &["WaitForTargetFPS2", "My.WaitForTargetFPS"]),
    ("", &[]),
];

/// Every name of the tables, with its cause.
fn names() -> impl Iterator<Item = (&'static str, Option<Cause>)> {
    let sections = |names: &'static [&str]| names.iter().map(|&name| (name, Some(Section)));
    let causes = CAUSES.iter().flat_map(move |&(name, cause, _, others)| {
        [(name, Some(cause))].into_iter().chain(sections(others))
    });
    let steps = NO_CAUSES.iter();
    causes.chain(
        steps.flat_map(move |&(name, others)| [(name, None)].into_iter().chain(sections(others))),
    )
}

fn is_noticed(rules: &[(Is, Cause)], steps: &[Is]) -> bool {
    names().any(|(name, cause)| by_rules(name, rules.iter(), steps.iter()) != cause)
}

#[test]
fn names_tell_their_causes() {
    for (name, cause) in names() {
        assert_eq!(for_name(name), cause, "{name}");
    }
}

#[test]
fn causes_add_up_under_their_keys() {
    let mut text = Text::new("{}");
    CAUSES
        .iter()
        .zip(1..)
        .for_each(|((name, ..), us)| text.slice(MAIN, us * 10, us * 10 + 5, name));
    let trace = text.trace();
    let index = NameIndex::new(&trace.names, None);
    for (slice, &(name, cause, key, _)) in trace.threads[&MAIN].slices.iter().zip(CAUSES) {
        let key = if key == "=" { name } else { key };
        assert_eq!(index.named(slice.name).cause, Some((cause, key.into())));
    }
}

/// The platform's record about a frame of 8 ms, what it makes the longest cause, and records like it with another one.
type Verdict =
    (&'static str, &'static str, Cause, &'static str, &'static [(&'static str, &'static str)]);

const VERDICTS: &[Verdict] = &[
    (
        "jank_data",
        "vsync=7 jank=1 allowed_ns=10000000 total_ns=8000000",
        System,
        "(compositor)",
        &[
            ("jank_data", "vsync=7 jank=0 allowed_ns=10000000 total_ns=12000000"),
            ("jank_data", "vsync=7 jank=3 allowed_ns=10000000 total_ns=20000000"),
            ("jank_data", "vsync=8 jank=1 allowed_ns=10000000 total_ns=8000000"),
            ("surface_jank_data", "vsync=7 jank=1 allowed_ns=10000000 total_ns=8000000"),
        ],
    ),
    (
        "frame_metrics",
        "vsync=7 intended_ns=20000000 allowed_ns=10000000 total_ns=23000000 gpu_ns=15000000",
        Gpu,
        "(graphics processor)",
        &[
            ("frame_metrics", "vsync=7 intended_ns=20000000 allowed_ns=24000000 total_ns=23000000"),
            ("frame_metrics", "vsync=7 intended_ns=20000000 total_ns=23000000 gpu_ns=15000000"),
            ("vsync", "vsync=7 intended_ns=20000000 allowed_ns=7000000 total_ns=23000000"),
        ],
    ),
];

#[test]
fn verdicts_tell_their_causes() {
    let cause = |source: &str, frame: &str| {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.slice(MAIN, 20_000, 25_000, "Choreographer#doFrame 7");
        text.slice(RENDER, 24_000, 28_000, "DrawFrames 7");
        let details = format!(
            r#"{{"args":{{"source":"{source}","frame":"{frame}"}},"cat":"tracetee.frame"}}"#
        );
        text.detailed(MAIN, 90_000, &details, "I|100|frame verdict");
        let mut analysis = crate::analyze(&text.trace(), &crate::Options::default()).unwrap();
        analysis.frames.remove(0).cause.map(|(cause, key)| (cause, key.to_string()))
    };
    for &(source, frame, expected, key, others) in VERDICTS {
        assert_eq!(cause(source, frame), Some((expected, key.to_owned())), "{source} {frame}");
        for &(source, frame) in others {
            let other = cause(source, frame);
            assert!(other.is_none_or(|(cause, _)| cause != expected), "{source} {frame}");
        }
    }
}

#[test]
fn no_rule_can_be_dropped_unnoticed() {
    for (index, rule) in RULES.iter().enumerate() {
        let mut rules = RULES.to_vec();
        rules.remove(index);
        assert!(is_noticed(&rules, STEPS), "{rule:?} has no name of its own");
    }
    for (index, step) in STEPS.iter().enumerate() {
        let mut steps = STEPS.to_vec();
        steps.remove(index);
        assert!(is_noticed(RULES, &steps), "{step:?} has no name of its own");
    }
    assert!(!is_noticed(RULES, STEPS));
}

/// Rules that match everything that a rule does, and more.
fn wider(rule: Is) -> Vec<Is> {
    let ends_with_sign = |text: &str| !text.ends_with(|last: char| last.is_ascii_alphanumeric());
    match rule {
        Name(text) => vec![Begins(text), Has(text)],
        Begins(text) if ends_with_sign(text) => vec![Has(text), Begins(&text[..text.len() - 1])],
        Begins(text) => vec![Has(text)],
        Has(_) | Composable => Vec::new(),
    }
}

#[test]
fn no_rule_can_be_made_wider_unnoticed() {
    for (index, &(rule, cause)) in RULES.iter().enumerate() {
        for wider in wider(rule) {
            let mut rules = RULES.to_vec();
            rules[index] = (wider, cause);
            assert!(is_noticed(&rules, STEPS), "no section is like {rule:?} as {wider:?}");
        }
    }
    for (index, &step) in STEPS.iter().enumerate() {
        for wider in wider(step) {
            let mut steps = STEPS.to_vec();
            steps[index] = wider;
            assert!(is_noticed(RULES, &steps), "no section is like {step:?} as {wider:?}");
        }
    }
}

/// Functions of the platform, and of apps and libraries that are like them.
const PLATFORM_FUNCTIONS: &[(&str, &[&str])] = &[
    ("android.os.Looper.loop", &["com.app.android.Feed.bind", "androidutil.Feed.bind"]),
    (
        "androidx.recyclerview.widget.RecyclerView.onLayout",
        &["my.androidx.Feed.bind", "androidxl.Feed.bind"],
    ),
    (
        "com.android.internal.os.ZygoteInit.main",
        &["com.androidpit.Feed.bind", "my.com.android.Feed.bind"],
    ),
    (
        "com.google.android.material.Slider.draw",
        &["com.google.androidauto.Car.run", "a.com.google.android.B.c"],
    ),
    ("dalvik.system.VMRuntime.gc", &["dalvikum.Feed.bind", "my.dalvik.Feed.bind"]),
    ("java.util.HashMap.get", &["javassist.Pool.get", "my.java.Pool.get"]),
    ("javax.crypto.Cipher.doFinal", &["javaxt.Text.read", "my.javax.Text.read"]),
    ("jdk.internal.misc.Unsafe.park", &["jdkutil.Text.read", "my.jdk.Text.read"]),
    ("kotlin.text.Regex.find", &["kotlinpoet.File.write", "my.kotlin.File.write"]),
    ("kotlinx.coroutines.DispatchedTask.run", &["kotlinxx.File.write", "my.kotlinx.File.write"]),
    ("libcore.io.Linux.read", &["libcorec.File.write", "my.libcore.File.write"]),
    ("sun.misc.Unsafe.park", &["sunrise.Sky.draw", "my.sun.Sky.draw"]),
    ("dev.tracetee.Event.write", &["dev.traceteen.Feed.bind", "my.dev.tracetee.Feed.bind"]),
    ("(not recorded)", &["com.app.Feed.(x)"]),
    ("<user>.Feed.bind", &["com.app.Feed.<init>", "com.app.Feed.<clinit>"]),
    ("#1a2b3c4d.Feed.bind", &["com.app.Feed#bind.x"]),
    ("main", &["a.b"]),
];

#[test]
fn functions_of_the_platform_are_known_by_their_packages() {
    for &(function, others) in PLATFORM_FUNCTIONS {
        assert!(is_platform(function), "{function}");
        for other in others {
            assert!(!is_platform(other), "{other}");
        }
    }
    for begin in PLATFORM {
        let of_it = PLATFORM_FUNCTIONS.iter().filter(|(function, _)| function.starts_with(begin));
        assert!(of_it.count() > 0, "{begin} has no function of its own");
        let others = || PLATFORM_FUNCTIONS.iter().flat_map(|(_, others)| others.iter());
        assert!(others().any(|other| other.contains(begin)), "{begin} may be anywhere");
        if let Some(wider) = begin.strip_suffix('.') {
            assert!(others().any(|other| other.starts_with(wider)), "{begin} has no near miss");
        }
    }
}

#[test]
fn an_app_s_functions_begin_as_its_id() {
    for (id, prefix) in [
        ("com.example.app", "com.example."),
        ("com.example.app.debug", "com.example."),
        ("com.example.app:remote", "com.example."),
        ("com.example", "com.example."),
        ("demo", "demo."),
        ("com.android.settings", "com.android.settings."),
        ("com.android.vending.billing", "com.android.vending.billing."),
        // Google's platform begins as its apps do.
        ("com.google.maps", "com.google.maps."),
        ("com.google.maps.lite", "com.google.maps."),
        ("com.google.android.youtube", "com.google.android.youtube."),
        ("dev.tracetee.sample", "dev.tracetee.sample."),
        ("io.github.jane.app", "io.github.jane."),
        ("com.github.jane", "com.github.jane."),
        ("com.githubs.jane.app", "com.githubs."),
    ] {
        assert_eq!(app_prefixes(&[], id), [prefix], "{id}");
    }
}

#[test]
fn packages_that_a_capture_names_are_the_app_s_instead_of_its_id() {
    let packages = ["org.other", "", "com.example.app"].map(str::to_owned);
    assert_eq!(app_prefixes(&packages, "com.example"), ["org.other.", "com.example.app."]);
    assert_eq!(app_prefixes(&[String::new()], "com.example.app"), ["com.example."]);
    let many = vec!["a.b".to_owned(); 100];
    assert_eq!(app_prefixes(&many, "com.example").len(), MAX_PACKAGES);
}

#[test]
fn the_page_of_causes_has_each_with_its_meaning_and_action() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/REPORTS.md"));
    let page = page.unwrap();
    let rows = page.lines().filter_map(|line| {
        let (cause, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((cause, rest.strip_suffix(" |")?))
    });
    let expected = Cause::ALL
        .iter()
        .map(|cause| (<&str>::from(*cause), format!("{} | {}", cause.meaning(), cause.action())));
    assert!(rows.map(|(cause, rest)| (cause, rest.to_owned())).eq(expected));
}
