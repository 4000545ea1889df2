//! Each name by which a start-up is found or divided, as Android or a library writes it, with names like it.

use crate::startup::PhaseKind::{ApplicationOnCreate, ContentProviders};
use crate::startup::launches::Step::{self, Background, Bind, Create, Pause, Resume, Stop};
use crate::startup::{launches, phases};

#[test]
fn steps_of_a_process_are_known_by_their_names() {
    let steps: &[(&str, Step, &[&str])] = &[
        ("bindApplication", Bind, &["bindApplication2", "My.bindApplication"]),
        ("activityStart", Create, &["activityStarted", "My.activityStart"]),
        ("performCreate:com.example.Main", Create, &["performCreate", "My.performCreate:x"]),
        ("performLaunchActivity", Create, &["My.performLaunchActivity"]),
        ("activityResume", Resume, &["activityResumed"]),
        ("activityRestart", Resume, &["activityRestarted"]),
        ("performResume:com.example.Main", Resume, &["performResume", "My.performResume:x"]),
        ("performRestart:com.example.Main", Resume, &["performRestart", "My.performRestart:x"]),
        ("activityPause", Pause, &["activityPaused"]),
        ("performPause:com.example.Main", Pause, &["performPause", "My.performPause:x"]),
        ("activityStop", Stop, &["activityStopped"]),
        ("performStop:com.example.Main", Stop, &["performStop", "My.performStop:x"]),
        ("serviceCreate: className=com.example.Sync", Background, &["serviceCreate"]),
        ("broadcastReceiveComp: com.example.Boot", Background, &["broadcastReceiveComp"]),
        (
            "broadcastReceiveReg: android.intent.action.TIME_TICK",
            Background,
            &["broadcastReceiveReg"],
        ),
    ];
    for &(name, step, others) in steps {
        assert_eq!(launches::step(name), Some(step), "{name}");
        others.iter().for_each(|name| assert_eq!(launches::step(name), None, "{name}"));
    }
}

#[test]
fn steps_of_bind_application_are_known_by_markers_and_by_methods() {
    for (name, phase) in [
        ("installContentProviders", Some(ContentProviders)),
        (
            "android.app.ActivityThread.installProvider(Landroid/content/Context;)V",
            Some(ContentProviders),
        ),
        ("androidx.startup.InitializationProvider.onCreate", Some(ContentProviders)),
        ("androidx.startup.InitializationProvider#attachInfo", Some(ContentProviders)),
        ("boolean com.example.FilesProvider.onCreate()", Some(ContentProviders)),
        ("com.example.FilesProvider.query", None),
        ("Provider onCreate done", None),
        (
            "android.app.Instrumentation.callApplicationOnCreate(Landroid/app/Application;)V",
            Some(ApplicationOnCreate),
        ),
        ("void com.example.MyApplication.onCreate()", Some(ApplicationOnCreate)),
        ("com.example.MyApplication#onCreate", Some(ApplicationOnCreate)),
        ("com.example.FeedApp.onCreate", Some(ApplicationOnCreate)),
        ("com.example.FeedApp#onCreate", Some(ApplicationOnCreate)),
        ("com.example.FeedApp.onCreateView", None),
        ("com.example.Feed.onCreate", None),
        ("load(com.example.FeedApp.onCreate)", None),
    ] {
        assert_eq!(phases::step_of_bind(name), phase, "{name}");
    }
}
