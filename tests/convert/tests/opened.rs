//! Outputs of inputs that are damaged at random: whatever is read, each reader opens what is written of it, without a crash.
//!
//! `TRACETEE_OUTPUTS=3000 cargo test -p tracetee-tests-convert --test opened -- --nocapture` opens more of them.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tracetee_convert::Format;
use tracetee_tests::tools::{chromium, on_path, phone_trace, tool};
use tracetee_tests::{cache, root};
use tracetee_tests_convert::{
    Engine, Profiler, Random, everything_of, firefox_profiler, frames, speedscope,
};
use tracetee_trace::{Trace, read, read_any};

/// Outputs that are opened without [`VARIABLE`].
const OUTPUTS: usize = 120;
const VARIABLE: &str = "TRACETEE_OUTPUTS";

/// The formats of an input, with their endings and readers.
const OPENED: [(Format, &str, Reader); 11] = [
    (Format::Ftrace, "ftrace", Reader::TraceProcessor),
    (Format::Atrace, "atrace", Reader::TraceProcessor),
    (Format::Html, "html", Reader::TraceProcessor),
    (Format::Perfetto, "pftrace", Reader::TraceProcessor),
    (Format::Chrome, "json", Reader::TraceProcessor),
    (Format::Dart, "dart.json", Reader::TraceProcessor),
    (Format::Chrome, "scope.json", Reader::Speedscope),
    (Format::Pprof, "scope.pb", Reader::Speedscope),
    (Format::Chrome, "firefox.json", Reader::Firefox),
    (Format::Pprof, "pb", Reader::Pprof),
    (Format::Traceview, "trace", Reader::Dmtracedump),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reader {
    Pprof,
    Dmtracedump,
    TraceProcessor,
    Speedscope,
    Firefox,
}

/// Inputs of each kind.
fn inputs() -> Vec<Vec<u8>> {
    let text = frames(3).into_bytes();
    let trace: Trace = read(&*text).unwrap();
    let written = [Format::Chrome, Format::Dart, Format::Traceview, Format::TraceviewV2];
    let written = written.map(|format| {
        let mut out = Vec::new();
        tracetee_convert::write(&trace, format, &mut out).unwrap();
        out
    });
    let values = br#"{"traceEvents":[{"ph":"M","name":"process_name","pid":1,"args":{"name":"com.example"}},
        {"ph":"X","name":"a","cat":"Dart","pid":1,"tid":2,"ts":10,"dur":5,"sf":"2","estack":["x","y"],"args":{"x":[1,{},[]],"n":null,"y.z":1e3}},
        {"ph":"s","name":"f","id":5,"pid":1,"tid":2,"ts":12},{"ph":"C","name":"c","pid":1,"ts":13,"args":{"a":1,"b":"2"}},
        {"ph":"b","name":"t","cat":"k","id":"0x9","pid":1,"tid":3,"ts":14},{"ph":"e","name":"t","cat":"k","id":"0x9","pid":1,"tid":3,"ts":19},
        {"ph":"f","bp":"e","name":"f","id":5,"pid":1,"tid":2,"ts":14},{"ph":"i","s":"g","name":"i","pid":1,"tid":2,"ts":15}],
        "stackFrames":{"1":{"name":"outer"},"2":{"name":"inner","parent":"1"}},
        "samples":[{"ts":10,"pid":1,"tid":2,"sf":"2","weight":3},{"ts":15,"pid":1,"tid":2,"sf":"1","weight":1}]}"#;
    let samples = b"app  100/101 [002] 10.000100: 250000 cycles:u:\n\t    7f00 inner+0x4 (/lib/libx.so)\n\t    7e00 outer+0x8 (/lib/libx.so)\n\n\
        app  100/101 [002] 10.000350: 250000 cycles:u:\n\t    7e00 outer+0x8 (/lib/libx.so)\n\n";
    let scheduled = phone_trace("atrace-small.z").map(|path| std::fs::read(path).unwrap());
    let mut all = vec![text, values.to_vec(), samples.to_vec()];
    all.extend(written);
    all.extend((0..4).map(|seed| everything_of(seed, 40)));
    all.extend(scheduled);
    all
}

/// Changes some bytes, or cuts, repeats or moves a part.
fn damaged(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let index = |random: &mut Random| usize::try_from(random.below(input.len() as u64)).unwrap();
    for _ in 0..=random.below(6) {
        let at = index(random).min(bytes.len() - 1);
        match random.below(12) {
            0 => bytes.truncate(at + 1),
            1 => {
                let end = (at + 200).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.extend(part);
            }
            2 => drop(bytes.drain(at..(at + 7).min(bytes.len() - 1).max(at))),
            // Digits are other digits, so that times and ids change.
            3..=8 => {
                let near = bytes[at..].iter().position(u8::is_ascii_digit).unwrap_or_default();
                bytes[at + near] = b'0' + u8::try_from(random.below(10)).unwrap();
            }
            _ => bytes[at] = u8::try_from(random.below(256)).unwrap(),
        }
    }
    bytes
}

/// Runs a program; says why, if it fails.
fn fails(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then(|| format!("{}: {said}", output.status))
}

/// Opens files, all of one reader. Returns those that it does not open, with the reason; `None` if there is no reader.
fn opened(reader: Reader, directory: &Path, files: &[String]) -> Option<BTreeMap<String, String>> {
    let one_by_one = |why: &dyn Fn(&Path) -> Option<String>| {
        let failed =
            files.iter().filter_map(|file| Some((file.clone(), why(&directory.join(file))?)));
        failed.collect()
    };
    match reader {
        Reader::TraceProcessor => {
            let names: Vec<&str> = files.iter().map(String::as_str).collect();
            let errors = Engine::new()?.errors(directory, &names);
            let failed = errors.into_iter().zip(files);
            Some(failed.filter_map(|(error, file)| Some((file.clone(), error?))).collect())
        }
        Reader::Speedscope => {
            let (index, chromium) = (speedscope()?, chromium()?);
            let mut failed = BTreeMap::new();
            for files in files.chunks(100) {
                let output = Command::new("node")
                    .arg(root().join("tests/convert/browser/speedscope.mjs"))
                    .args([&chromium, &index])
                    .args(files.iter().map(|file| directory.join(file)))
                    .env("NODE_PATH", cache("readers").join("node_modules"))
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let said = String::from_utf8(output.stdout).unwrap();
                let lines = said.lines().map(serde_json::from_str::<(String, Value)>);
                failed.extend(
                    lines.map(|line| line.unwrap()).map(|(file, why)| (file, why.to_string())),
                );
            }
            Some(failed)
        }
        Reader::Firefox => {
            let script = firefox_profiler()?;
            Some(one_by_one(&|file| Profiler::load(&script, file).err()))
        }
        Reader::Pprof => {
            let go = cache("validators").join("venv/bin/go");
            let go = tool(go.exists().then_some(go), "Go")?;
            Some(one_by_one(&|file| {
                fails(Command::new(&go).args(["tool", "pprof", "-traces"]).arg(file))
            }))
        }
        Reader::Dmtracedump => {
            let original: PathBuf = tool(on_path(&["dmtracedump"]), "dmtracedump")?;
            Some(one_by_one(&|file| fails(Command::new(&original).arg(file))))
        }
    }
}

#[test]
fn readers_open_what_is_written_of_damaged_inputs() {
    let wanted = std::env::var(VARIABLE).map_or(OUTPUTS, |count| count.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let (inputs, mut random) = (inputs(), Random(51));
    let mut files: BTreeMap<Reader, Vec<String>> = BTreeMap::new();
    let (mut count, mut damages) = (0, 0);
    while count < wanted {
        let input = random.pick(&inputs);
        let Ok(trace) = read_any(Cursor::new(damaged(input, &mut random))) else { continue };
        damages += 1;
        for (format, ending, reader) in OPENED {
            if format.can_represent_any_of(&trace) {
                let name = format!("{damages}.{ending}");
                let mut out = Vec::new();
                tracetee_convert::write(&trace, format, &mut out).unwrap();
                std::fs::write(directory.path().join(&name), out).unwrap();
                files.entry(reader).or_default().push(name);
                count += 1;
            }
        }
    }
    let mut failed = Vec::new();
    for (reader, files) in files {
        match opened(reader, directory.path(), &files) {
            Some(found) => {
                println!("{reader:?}: {} of {} opened", files.len() - found.len(), files.len());
                found.iter().for_each(|(file, why)| println!("  {file}: {why}"));
                failed.extend(found);
            }
            None => println!("{reader:?}: skipped"),
        }
    }
    if let Some((first, _)) = failed.first() {
        let kept = directory.keep();
        panic!(
            "{} of {count} outputs, as {}: {failed:#?}",
            failed.len(),
            kept.join(first).display()
        );
    }
}
