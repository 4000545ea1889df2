//! Causes of late frames, by the names that Android gives its slices.
//!
//! The cause of a slice covers everything that runs inside it, unless an inner slice has another cause. The framework's
//! own steps (`traversal`, `draw` …) are no causes: time in them that nothing else explains is
//! [`Cause::Unexplained`].

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

/// A cause of jank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Cause {
    /// The garbage collector: the thread waits for it, or collects itself.
    Gc,
    /// Waiting for a lock: Java's monitors, ART's and native locks.
    Lock,
    /// A call into another process.
    Binder,
    /// Inflation of layouts.
    Inflate,
    /// Loading of resources, assets, themes and drawables.
    Resources,
    /// Loading and verification of classes, dex files and native libraries.
    ClassLoading,
    /// Compilation of code.
    Jit,
    /// Waiting for a buffer of the display.
    Buffer,
    /// Access to the disk or a database.
    Io,
    /// The main thread's wait for the render thread.
    RenderWait,
    /// Work of the graphics pipeline: shaders, textures, layers.
    Graphics,
    /// Asleep in a section that names no wait, until a timer or another interrupt: `Thread.sleep`, waits with a limit.
    Sleep,
    /// Asleep in a section that names no wait, until another thread, known or not, continued.
    Wait,
    /// Between two messages, with nothing to do.
    Idle,
    /// The graphics processor: a thread, or the display, waits for it to complete.
    Gpu,
    /// The compositor: SurfaceFlinger or the display's composer.
    System,
    /// On a little core, where frames in time run on others.
    Core,
    /// On a processor whose clock was far below that of frames in time.
    Clock,
    /// Ready to run, while another thread had the processor.
    Preempted,
    /// Ready to run, while no processor was free.
    Runnable,
    /// Waiting inside the kernel, not for a disk: memory, drivers.
    Kernel,
    /// Page faults that waited for a disk or for memory that was swapped out.
    Swap,
    /// Composition by Jetpack Compose.
    Compose,
    /// A function of the app that samples of the thread's callstack show, in time that no section of the platform explains.
    Code,
    /// A section of the app or of a library.
    Section,
    /// No slice explains the time.
    Unexplained,
}

impl Cause {
    /// All causes.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Describes the thread's activity in this time: the end of a sentence that begins with "The thread".
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Gc => "waited for the garbage collector, or collected",
            Self::Lock => "waited for a lock that another thread held",
            Self::Binder => "waited for a call into another process",
            Self::Inflate => "inflated layouts",
            Self::Resources => "loaded resources, assets, themes, drawables",
            Self::ClassLoading => "loaded or verified classes and libraries",
            Self::Jit => "compiled code, or waited for that",
            Self::Buffer => "waited for a free buffer of the display",
            Self::Io => "waited for a disk or a database",
            Self::RenderWait => "waited for the render thread",
            Self::Graphics => "prepared shaders, textures and layers",
            Self::Sleep => "slept until a timer",
            Self::Wait => "slept until another thread went on",
            Self::Idle => "had nothing to do (in start-ups)",
            Self::Gpu => "had drawn, and the graphics processor was still working",
            Self::System => {
                "was done, or not called yet, and SurfaceFlinger or the composer was late"
            }
            Self::Core => "ran on a little core, unlike in frames in time",
            Self::Clock => {
                "ran at a clock far below that of frames in time: what the usual clock would have saved, whatever ran"
            }
            Self::Preempted => "was ready to run; one other thread had the processor",
            Self::Runnable => "was ready to run; no processor was free",
            Self::Kernel => "waited inside the kernel, not for a disk",
            Self::Swap => "waited for memory that was swapped out",
            Self::Compose => "composed (Jetpack Compose)",
            Self::Code => "ran a function that samples of the callstack show",
            Self::Section => "ran a section of the app or of a library",
            Self::Unexplained => "did something that nothing in the trace names",
        }
    }

    /// Says what to do about the cause, in a few words that begin with a verb.
    #[must_use]
    pub const fn action(self) -> &'static str {
        match self {
            Self::Gc => "allocate less in frames: reuse objects",
            Self::Lock => "hold the lock for less time in the thread that has it",
            Self::Binder => "make the call on another thread, or keep its answer",
            Self::Inflate => "inflate less, or ahead of the frame: flatter layouts, recycled views",
            Self::Resources => "load it ahead of the frame, in the size that is shown",
            Self::ClassLoading | Self::Jit => "ship a baseline profile",
            Self::Buffer => "look at the frames before it: the display still has their buffers",
            Self::Io => "read and write on another thread, and several changes at once",
            Self::RenderWait | Self::Graphics => {
                "draw less: smaller bitmaps, fewer layers and shaders"
            }
            Self::Sleep => "let another thread wait",
            Self::Wait => "look at what that thread did meanwhile, on the critical path",
            Self::Idle => "look at what the app waits for before it goes on",
            Self::Gpu => "draw fewer pixels: less overdraw, blur and shadow",
            Self::System => "look at the compositor and the device's load: the app was done",
            Self::Core | Self::Clock => "do less then, or ask for speed: PerformanceHintManager",
            Self::Preempted => "let that thread run later, or at a lower priority",
            Self::Runnable => "run fewer threads at once",
            Self::Kernel => "look at that function, and at the section around it",
            Self::Swap => "use less memory, and touch what the frame needs before",
            Self::Compose => "compose less: stable parameters, reads of state in layout or draw",
            Self::Code | Self::Section => "do less in it, or on another thread",
            Self::Unexplained => "add sections to it, or switch on callstacks",
        }
    }

    /// True if sections of this cause name what their thread waits for.
    pub(crate) const fn names_wait(self) -> bool {
        matches!(
            self,
            Self::Gc
                | Self::Lock
                | Self::Binder
                | Self::Buffer
                | Self::Gpu
                | Self::Io
                | Self::RenderWait
        )
    }
}

/// The part of a name that a rule matches.
#[derive(Debug, Clone, Copy)]
enum Is {
    /// The whole name.
    Name(&'static str),
    /// The beginning of the name.
    Begins(&'static str),
    /// Any part of the name.
    Has(&'static str),
    /// A composable function of Compose with its place: `com.example.Feed (Feed.kt:12)`.
    Composable,
}

use Is::{Begins, Composable, Has, Name};

/// Prefix of the name that `dev.tracetee:androidx-tracing` gives a recomposition; the rest is its reason.
const RECOMPOSITION: &str = "Recompose group";

/// The names of AOSP's frameworks/base, libhwui, libgui and ART, the first that fits counts.
const RULES: &[(Is, Cause)] = &[
    // ART: waits of the thread, then work on it.
    (Begins("GC: "), Cause::Gc),
    (Begins("WaitForGcToComplete"), Cause::Gc),
    (Has("concurrent copying GC"), Cause::Gc),
    (Has("concurrent mark compact GC"), Cause::Gc),
    (Has("mark sweep GC"), Cause::Gc),
    (Begins("(Paused)"), Cause::Gc),
    (Name("Trim"), Cause::Gc),
    // Dart's and Unity's collectors.
    (Begins("CollectNewGeneration"), Cause::Gc),
    (Begins("CollectOldGeneration"), Cause::Gc),
    (Begins("GC.Collect"), Cause::Gc),
    (Begins("monitor contention with"), Cause::Lock),
    (Begins("Lock contention on "), Cause::Lock),
    (Begins("Contending for "), Cause::Lock),
    (Begins("SuspendThreadBy"), Cause::Lock),
    (Begins("binder transaction"), Cause::Binder),
    (Begins("binder reply"), Cause::Binder),
    (Begins("AIDL::"), Cause::Binder),
    (Begins("HIDL::"), Cause::Binder),
    (Name("inflate"), Cause::Inflate),
    (Begins("AssetManager"), Cause::Resources),
    (Begins("ResourcesManager"), Cause::Resources),
    (Begins("ResourcesImpl"), Cause::Resources),
    (Begins("Theme::"), Cause::Resources),
    (Begins("res/"), Cause::Resources),
    (Begins("assets/"), Cause::Resources),
    (Begins("ApkAssets"), Cause::Resources),
    (Begins("LoadApkAssets"), Cause::Resources),
    (Begins("createTypeface"), Cause::Resources),
    (Begins("ImageDecoder#"), Cause::Resources),
    (Begins("BitmapFactory#"), Cause::Resources),
    (Begins("decodeBitmap"), Cause::Resources),
    (Begins("VerifyClass "), Cause::ClassLoading),
    (Begins("InitializeClass"), Cause::ClassLoading),
    (Begins("OpenDexFile"), Cause::ClassLoading),
    (Begins("Open dex file"), Cause::ClassLoading),
    (Begins("dlopen"), Cause::ClassLoading),
    (Begins("LoadNativeLibrary"), Cause::ClassLoading),
    (Begins("PathClassLoader"), Cause::ClassLoading),
    (Has("dex2oat"), Cause::ClassLoading),
    (Has("app image"), Cause::ClassLoading),
    (Begins("JIT "), Cause::Jit),
    (Name("Compiling"), Cause::Jit),
    (Name("ScopedCodeCacheWrite"), Cause::Jit),
    (Begins("dequeueBuffer"), Cause::Buffer),
    (Begins("waitForBufferRelease"), Cause::Buffer),
    (Begins("waitForFreeSlot"), Cause::Buffer),
    (Begins("Waiting for GPU"), Cause::Gpu),
    (Begins("waiting for GPU"), Cause::Gpu),
    (Begins("waiting for HWC"), Cause::System),
    (Begins("waitOnFences"), Cause::Buffer),
    (Begins("postAndWait"), Cause::RenderWait),
    (Begins("SQLite"), Cause::Io),
    (Begins("sqlite3_"), Cause::Io),
    (Begins("QueuedWork"), Cause::Io),
    (Has("SharedPreferences"), Cause::Io),
    (Begins("fsync"), Cause::Io),
    (Begins("StrictMode"), Cause::Io),
    (Begins("shader_compile"), Cause::Graphics),
    (Begins("Upload "), Cause::Graphics),
    (Begins("Texture upload"), Cause::Graphics),
    (Begins("eglSwapBuffers"), Cause::Graphics),
    (Begins("eglBeginFrame"), Cause::Graphics),
    (Begins("queueBuffer"), Cause::Graphics),
    (Begins("setSurfaceDamage"), Cause::Graphics),
    (Name("query"), Cause::Graphics),
    (Begins("flush commands"), Cause::Graphics),
    (Begins("issueDrawCommands"), Cause::Graphics),
    (Name("flush layers"), Cause::Graphics),
    (Begins("vkQueuePresentKHR"), Cause::Graphics),
    (Begins("vkQueueSubmit"), Cause::Graphics),
    (Begins("Shader.CreateGPUProgram"), Cause::Graphics),
    (Begins("ShaderCompilation"), Cause::Graphics),
    // Unity's main thread waits for the one that presents.
    (Begins("Gfx.WaitForPresent"), Cause::RenderWait),
    (Begins("Gfx.WaitForLastPresent"), Cause::RenderWait),
    (Begins("Gfx.WaitForRenderThread"), Cause::RenderWait),
    (Begins("Recomposer:"), Cause::Compose),
    (Begins("Compose:"), Cause::Compose),
    (Begins("compose:"), Cause::Compose),
    (Begins(RECOMPOSITION), Cause::Compose),
    (Composable, Cause::Compose),
];

/// Steps of the framework, which are not causes.
const STEPS: &[Is] = &[
    Begins("Choreographer#"),
    Begins("DrawFrame"),
    Name("input"),
    Name("animation"),
    Name("insets_animation"),
    Name("traversal"),
    Name("commit"),
    Name("performTraversals"),
    Name("measure"),
    Name("layout"),
    Name("draw"),
    Name("layouting"),
    Begins("Record View#draw"),
    Begins("scheduleTraversals"),
    Begins("relayoutWindow"),
    Begins("deliverInputEvent"),
    Begins("HWUI:"),
    Name("syncFrameState"),
    Name("prepareTree"),
    Begins("draw-VRI"),
    Begins("layout-"),
    Begins("measure-"),
    Begins("AndroidOwner:"),
    // Flutter's engine, Unity's loop.
    Begins("Animator::"),
    Begins("Engine::BeginFrame"),
    Begins("Shell::OnAnimator"),
    Begins("GPURasterizer::"),
    Begins("Rasterizer::"),
    Begins("VsyncProcessCallback"),
    Name("PlayerLoop"),
    Name("WaitForTargetFPS"),
];

/// Beginnings of the functions of the platform, and of libraries that only pass calls on to the app.
const PLATFORM: &[&str] = &[
    "android.",
    "androidx.",
    "com.android.",
    "com.google.android.",
    "dalvik.",
    "java.",
    "javax.",
    "jdk.",
    "kotlin.",
    "kotlinx.",
    "libcore.",
    "sun.",
    "dev.tracetee.",
    // Of no class: a function that the capture lacks, or that redaction has renamed.
    "(",
    "<",
    "#",
];

/// True for a function of the platform.
pub(crate) fn is_platform(function: &str) -> bool {
    PLATFORM.iter().any(|begin| function.starts_with(begin)) || !function.contains('.')
}

/// Hosts of sources, in whose packages the third part is the owner.
const HOSTS: &[&str] = &["com.github.", "com.gitlab.", "io.github.", "io.gitlab."];
/// Limit of the packages that a capture names; the agent's is the same.
const MAX_PACKAGES: usize = 32;

/// Returns the beginnings of the names of an app's functions: its `packages`, or, if the capture names none, the first two parts
/// of its application id. More parts where two are those of the platform or of a host of sources.
pub(crate) fn app_prefixes(packages: &[String], application: &str) -> Vec<String> {
    let packages = packages.iter().filter(|package| !package.is_empty()).take(MAX_PACKAGES);
    let packages: Vec<String> = packages.map(|package| format!("{package}.")).collect();
    if !packages.is_empty() {
        return packages;
    }
    let id = application.split(':').next().unwrap_or(application);
    let dots = id.match_indices('.').skip(1).filter_map(|(dot, _)| id.get(..=dot));
    let is_others = |prefix: &&str| {
        is_platform(prefix)
            || PLATFORM.iter().any(|begin| begin.starts_with(prefix))
            || HOSTS.contains(prefix)
    };
    let own = dots.map(str::to_owned).find(|prefix| !is_others(&prefix.as_str()));
    vec![own.unwrap_or_else(|| format!("{id}."))]
}

impl Is {
    fn fits(self, name: &str) -> bool {
        match self {
            Name(text) => name == text,
            Begins(text) => name.starts_with(text),
            Has(text) => name.contains(text),
            Composable => composable(name).is_some(),
        }
    }
}

/// True for a section in which a list prepares its next items between frames, by Compose or `RecyclerView`.
pub(crate) fn is_prefetch(name: &str) -> bool {
    let is_compose = name.starts_with("compose:lazy") && name.contains(":prefetch:");
    is_compose || name.starts_with("RV Prefetch")
}

/// True for a step of Compose's runtime, which says less than the prefetch around it.
pub(crate) fn is_step_of_compose(name: &str) -> bool {
    name.starts_with("Compose:")
}

/// Returns the name of a composable function without the place of its source.
fn composable(name: &str) -> Option<&str> {
    let (function, index) = name.strip_suffix(')')?.rsplit_once(" (")?;
    let (file, line) = index.rsplit_once(".kt:")?;
    let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    (is_line && !file.is_empty() && !function.is_empty()).then_some(function)
}

/// Returns the key of a slice of Compose, if it is not its name: the composable function, or why something was recomposed.
pub(crate) fn composition(name: &str) -> Option<String> {
    let reason = name.strip_prefix(RECOMPOSITION).and_then(|rest| rest.strip_prefix(" because "));
    match reason {
        Some(reason) => Some(format!("recomposed because {reason}")),
        None => composable(name).map(str::to_owned),
    }
}

/// Returns the cause of a slice with this name; `None` for steps of the framework.
pub(crate) fn for_name(name: &str) -> Option<Cause> {
    by_rules(name, RULES.iter(), STEPS.iter())
}

fn by_rules<'a>(
    name: &str,
    mut rules: impl Iterator<Item = &'a (Is, Cause)>,
    mut steps: impl Iterator<Item = &'a Is>,
) -> Option<Cause> {
    if let Some(&(_, cause)) = rules.find(|(rule, _)| rule.fits(name)) {
        return Some(cause);
    }
    if steps.any(|step| step.fits(name)) || name.is_empty() {
        return None;
    }
    // ART names the loading of a class by its descriptor.
    let is_descriptor = name.starts_with('L') && name.ends_with(';') && name.contains('/');
    Some(if is_descriptor { Cause::ClassLoading } else { Cause::Section })
}

#[cfg(test)]
#[path = "cause_tests.rs"]
mod tests;
