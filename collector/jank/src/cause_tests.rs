//! Each rule of causes by a name that the platform, a library or an engine writes. A rule without a name here fails.

use super::*;

const NAMES: &[(&str, Option<Cause>)] = &[
    ("GC: Wait For Completion Alloc", Some(Cause::Gc)),
    ("WaitForGcToComplete", Some(Cause::Gc)),
    ("Background concurrent copying GC", Some(Cause::Gc)),
    ("Background concurrent mark compact GC", Some(Cause::Gc)),
    ("partial concurrent mark sweep GC", Some(Cause::Gc)),
    ("(Paused)MarkingPause", Some(Cause::Gc)),
    ("Trim", Some(Cause::Gc)),
    ("CollectNewGeneration", Some(Cause::Gc)),
    ("CollectOldGeneration", Some(Cause::Gc)),
    ("GC.Collect", Some(Cause::Gc)),
    ("monitor contention with owner a (1) at b waiters=0 blocking from c", Some(Cause::Lock)),
    ("Lock contention on thread suspend count lock (owner tid: 1)", Some(Cause::Lock)),
    ("Contending for pthread mutex", Some(Cause::Lock)),
    ("SuspendThreadByThreadId suspended main", Some(Cause::Lock)),
    ("binder transaction", Some(Cause::Binder)),
    ("binder reply", Some(Cause::Binder)),
    ("AIDL::java::IActivityManager::getTasks::client", Some(Cause::Binder)),
    ("HIDL::IComposerClient::executeCommands_2_2::client", Some(Cause::Binder)),
    ("inflate", Some(Cause::Inflate)),
    ("inflated", Some(Cause::Section)),
    ("AssetManager::OpenXmlAsset", Some(Cause::Resources)),
    ("ResourcesManager#getResources", Some(Cause::Resources)),
    ("ResourcesImpl#updateConfiguration", Some(Cause::Resources)),
    ("Theme::ApplyStyle", Some(Cause::Resources)),
    ("res/drawable/logo.png", Some(Cause::Resources)),
    ("assets/fonts/a.ttf", Some(Cause::Resources)),
    ("ApkAssets::Load", Some(Cause::Resources)),
    ("LoadApkAssets(/system/framework/framework-res.apk)", Some(Cause::Resources)),
    ("createTypefaceFromFamily", Some(Cause::Resources)),
    ("ImageDecoder#decodeDrawable", Some(Cause::Resources)),
    ("BitmapFactory#decodeStream", Some(Cause::Resources)),
    ("decodeBitmap", Some(Cause::Resources)),
    ("VerifyClass com.example.Foo", Some(Cause::ClassLoading)),
    ("InitializeClass", Some(Cause::ClassLoading)),
    ("OpenDexFilesFromOat(/data/app/base.apk)", Some(Cause::ClassLoading)),
    ("Open dex file /data/app/base.apk", Some(Cause::ClassLoading)),
    ("dlopen: libfoo.so", Some(Cause::ClassLoading)),
    ("LoadNativeLibrary libfoo.so", Some(Cause::ClassLoading)),
    ("PathClassLoader", Some(Cause::ClassLoading)),
    ("run dex2oat", Some(Cause::ClassLoading)),
    ("Loading app image classes", Some(Cause::ClassLoading)),
    ("Lcom/example/Foo;", Some(Cause::ClassLoading)),
    ("JIT compiling void a.b.c()", Some(Cause::Jit)),
    ("Compiling", Some(Cause::Jit)),
    ("ScopedCodeCacheWrite", Some(Cause::Jit)),
    ("dequeueBuffer", Some(Cause::Buffer)),
    ("waitForBufferRelease", Some(Cause::Buffer)),
    ("waitForFreeSlotThenRelock", Some(Cause::Buffer)),
    ("waitOnFences", Some(Cause::Buffer)),
    ("Waiting for GPU completion 7", Some(Cause::Gpu)),
    ("waiting for GPU completion 7", Some(Cause::Gpu)),
    ("waiting for HWC release", Some(Cause::System)),
    ("postAndWait", Some(Cause::RenderWait)),
    ("Gfx.WaitForPresentOnGfxThread", Some(Cause::RenderWait)),
    ("Gfx.WaitForLastPresent", Some(Cause::RenderWait)),
    ("Gfx.WaitForRenderThread", Some(Cause::RenderWait)),
    ("SQLiteDatabase.open", Some(Cause::Io)),
    ("sqlite3_step", Some(Cause::Io)),
    ("QueuedWork.waitToFinish", Some(Cause::Io)),
    ("awaitLoadedSharedPreferences", Some(Cause::Io)),
    ("fsync", Some(Cause::Io)),
    ("StrictMode policy violation", Some(Cause::Io)),
    ("shader_compile", Some(Cause::Graphics)),
    ("Upload 256x256 Texture", Some(Cause::Graphics)),
    ("Texture upload(7) 256x256", Some(Cause::Graphics)),
    ("eglSwapBuffersWithDamageKHR", Some(Cause::Graphics)),
    ("eglBeginFrame", Some(Cause::Graphics)),
    ("queueBuffer", Some(Cause::Graphics)),
    ("setSurfaceDamage", Some(Cause::Graphics)),
    ("query", Some(Cause::Graphics)),
    ("flush commands", Some(Cause::Graphics)),
    ("issueDrawCommands", Some(Cause::Graphics)),
    ("flush layers", Some(Cause::Graphics)),
    ("vkQueuePresentKHR", Some(Cause::Graphics)),
    ("vkQueueSubmit", Some(Cause::Graphics)),
    ("Shader.CreateGPUProgram", Some(Cause::Graphics)),
    ("ShaderCompilation", Some(Cause::Graphics)),
    ("Recomposer:recompose", Some(Cause::Compose)),
    ("Compose:onRemembered", Some(Cause::Compose)),
    ("compose:lazy:prefetch:compose", Some(Cause::Compose)),
    ("Feed.bind", Some(Cause::Section)),
    ("Choreographer#doFrame 12", None),
    ("DrawFrames 12", None),
    ("input", None),
    ("animation", None),
    ("insets_animation", None),
    ("traversal", None),
    ("commit", None),
    ("performTraversals", None),
    ("measure", None),
    ("layout", None),
    ("draw", None),
    ("layouting", None),
    ("Record View#draw()", None),
    ("scheduleTraversals", None),
    ("relayoutWindow#first=true", None),
    ("deliverInputEvent src=0x1002", None),
    ("HWUI:prepareTree", None),
    ("syncFrameState", None),
    ("prepareTree", None),
    ("draw-VRI[MainActivity]", None),
    ("layout-VRI[MainActivity]", None),
    ("measure-VRI[MainActivity]", None),
    ("AndroidOwner:measureAndLayout", None),
    ("Animator::BeginFrame", None),
    ("Engine::BeginFrame", None),
    ("Shell::OnAnimatorBeginFrame", None),
    ("GPURasterizer::Draw", None),
    ("Rasterizer::DoDraw", None),
    ("VsyncProcessCallback", None),
    ("PlayerLoop", None),
    ("WaitForTargetFPS", None),
    ("", None),
];

#[test]
fn names_tell_their_causes() {
    for &(name, cause) in NAMES {
        assert_eq!(for_name(name), cause, "{name}");
    }
}

#[test]
fn no_rule_can_be_dropped_unnoticed() {
    let is_noticed = |rules: &[(Is, Cause)], steps: &[Is]| {
        NAMES.iter().any(|&(name, cause)| by_rules(name, rules.iter(), steps.iter()) != cause)
    };
    let without = |place: usize| {
        let mut rules = RULES.to_vec();
        rules.remove(place);
        rules
    };
    for (place, rule) in RULES.iter().enumerate() {
        assert!(is_noticed(&without(place), STEPS), "{rule:?} has no name of its own");
    }
    for (place, step) in STEPS.iter().enumerate() {
        let mut steps = STEPS.to_vec();
        steps.remove(place);
        assert!(is_noticed(RULES, &steps), "{step:?} has no name of its own");
    }
    assert!(!is_noticed(RULES, STEPS));
}
