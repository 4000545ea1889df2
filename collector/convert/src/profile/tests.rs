//! Reports in the original's layout. That they are its reports is tests/convert's to show, which runs it.

use super::*;
use std::io::Cursor;

/// `THREAD ACTION METHOD TIME` a line.
fn trace(records: &[(u16, char, u32, u64)]) -> MethodTrace {
    let method = |id, class: &str, name: Option<&str>, signature: &str| Method {
        id,
        class: class.to_owned(),
        name: name.map(str::to_owned),
        signature: signature.to_owned(),
    };
    MethodTrace {
        version: 2,
        threads: vec![(1, "main".to_owned()), (2, "<b>".to_owned())],
        methods: vec![
            method(4, "c.A", Some("a"), "()V"),
            method(8, "c.B", Some("<init>"), "()V"),
            method(12, "c.A", Some("c"), "()V\tA.java"),
            method(16, "just a name", None, ""),
        ],
        records: records
            .iter()
            .map(|&(thread, action, method, time_us)| tracetee_trace::method::Record {
                thread,
                action: match action {
                    '+' => Action::Enter,
                    '-' => Action::Exit,
                    _ => Action::Unroll,
                },
                method,
                time_us,
                wall_us: time_us,
            })
            .collect(),
        ..MethodTrace::default()
    }
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// a { b { c { a { b } } } }
const NESTED: [(u16, char, u32, u64); 10] = [
    (1, '+', 4, 10),
    (1, '+', 8, 15),
    (1, '+', 12, 20),
    (1, '+', 4, 30),
    (1, '+', 8, 40),
    (1, '-', 8, 50),
    (1, '-', 4, 60),
    (1, '-', 12, 70),
    (1, '-', 8, 80),
    (1, '-', 4, 90),
];

#[test]
fn recursive_calls_are_told_apart() {
    let profile = Profile::from_trace(&trace(&NESTED));
    let a = &profile.methods[2];
    assert_eq!(
        (a.exclusive_us, a.inclusive_us, a.outer_exclusive_us, a.calls),
        (35, 80, 15, [1, 1])
    );
    let of = |edges: &[Edge]| edges.iter().map(|edge| (edge.method, edge.us)).collect::<Vec<_>>();
    assert_eq!((of(&a.parents[0]), of(&a.parents[1])), (vec![(TOPLEVEL, 80)], vec![(4, 30)]));
    assert_eq!((of(&a.children[0]), of(&a.children[1])), (vec![(3, 65)], vec![(3, 10)]));
    let report = text(|out| report(&profile, out));
    let expected = "\
----------------------------------------------------
               100.0%    [0]      1/2             80 (toplevel)
               +++++++++++++++++++++++++
                         [3]      1/2             30 c.A.c ()V\tA.java
[1]    100.0%                     1+1             80 c.A.a ()V
                18.8%   excl                      15
                81.2%    [2]      1/2             65 c.B.<init> ()V
               +++++++++++++++++++++++++
                         [2]      1/2             10 c.B.<init> ()V
";
    assert!(report.contains(expected), "{report}");
}

#[test]
fn every_microsecond_of_every_thread_is_somebody_s() {
    let profile = Profile::from_trace(&trace(&[
        (1, '+', 4, 10),
        (2, '+', 4, 12),
        (1, '+', 16, 20),
        (1, '-', 4, 40),
        (1, '-', 12, 45),
        (1, '+', 99, 50),
        (2, '!', 4, 60),
        (1, '-', 99, 70),
    ]));
    assert_eq!(profile.total_us, 60 + 48);
    assert_eq!(profile.methods.iter().map(|entry| entry.exclusive_us).sum::<u64>(), 108);
    assert_eq!((profile.stray_ends, profile.unclosed), (1, 1));
    // The same method on two threads is not recursive.
    assert_eq!(profile.methods[2].calls, [2, 0]);
}

#[test]
fn records_are_shown_with_their_depth_and_stray_ends_do_not_shift_it() {
    let shown = text(|out| {
        dump(&trace(&[(1, '-', 4, 5), (1, '+', 4, 10), (1, '+', 32, 20), (1, '!', 32, 30)]), out)
    });
    assert_eq!(
        shown,
        "VERSION: 2\nThreads (2):\n 1 main\n 2 <b>\n\
         Trace (threadID action usecs class.method signature):\n \
         1 xit         5 ...c.A.a ()V\n \
         1 ent        10 ...c.A.a ()V\n \
         1 ent        20 ....???.??? methodId: 0x20\n \
         1 unr        30 ....???.??? methodId: 0x20\n"
    );
}

#[test]
fn the_page_has_names_as_text_and_needs_nothing() {
    let profile = Profile::from_trace(&trace(&NESTED));
    let page = text(|out| html(&profile, None, out));
    assert!(page.contains("c.B.&lt;init&gt; ()V") && !page.contains("c.B.<init>"));
    assert!(!page.contains("<script") && !page.contains("://"), "{page}");
    // As in Traceview, parents and children have a background each: of b, a and its recursive call; c, and none below.
    let of_b = page.split("<tbody id=\"m2\">").nth(1).unwrap().split("</tbody>").next().unwrap();
    let kinds: Vec<_> = of_b.lines().filter_map(|row| row.split('"').nth(1)).collect();
    assert_eq!(kinds, ["parent", "parent", "of", "child"], "{of_b}");
    let page = text(|out| html(&profile, Some("http://x/\"><b>"), out));
    assert!(page.contains("<script src=\"http://x/&quot;&gt;&lt;b&gt;sortable.js\"></script>"));
}

#[test]
fn two_profiles_are_compared_method_by_method() {
    let first = Profile::from_trace(&trace(&NESTED));
    let second = Profile::from_trace(&trace(&[
        (1, '+', 4, 0),
        (1, '-', 4, 100),
        (1, '+', 16, 100),
        (1, '-', 16, 107),
    ]));
    let told = text(|out| comparison(&first, &second, out));
    assert!(
        told.contains("       35       100       +65   +185.7       2       1  c.A.a ()V\n"),
        "{told}"
    );
    assert!(
        told.contains("        0         7        +7      new       0       1  just a name\n"),
        "{told}"
    );
}

#[test]
fn the_graph_has_what_takes_its_share() {
    let profile = Profile::from_trace(&trace(&NESTED));
    let graph = text(|out| dot(&profile, 70, out));
    assert_eq!(
        graph,
        "digraph g {\nnode [shape = record,height=.1];\n\
         node0[label = \"[0] (toplevel) (0, 0, 0)\"]\n\
         node1[label = \"[1] c.A.a (0, 0, 2)\"]\n\
         node2[label = \"[2] c.B.\\<init\\> (0, 0, 2)\"]\n\
         node0 -> node1\nnode1 -> node2\n}\n"
    );
}

proptest::proptest! {
    #[test]
    fn no_records_are_too_much_for_it(
        records in proptest::collection::vec(
            (1..4_u16, proptest::sample::select(vec!['+', '-', '!']), 0..6_u32, 0..1000_u64), 0..60,
        ),
    ) {
        let records: Vec<_> =
            records.into_iter().map(|(thread, action, method, at)| (thread, action, method * 4, at)).collect();
        let trace = trace(&records);
        let profile = Profile::from_trace(&trace);
        let exclusive: u64 = profile.methods.iter().map(|entry| entry.exclusive_us).sum();
        proptest::prop_assert_eq!(exclusive, profile.total_us);
        for entry in &profile.methods {
            let of_children: u64 = entry.children[0].iter().map(|edge| edge.us).sum();
            // The time of a call is its own time and that of its children.
            proptest::prop_assert_eq!(entry.inclusive_us, entry.outer_exclusive_us + of_children);
        }
        let mut file = Vec::new();
        tracetee_trace::method::write(&trace, &mut file).unwrap();
        let read = tracetee_trace::method::read(Cursor::new(file)).unwrap();
        proptest::prop_assert_eq!(Profile::from_trace(&read).total_us, profile.total_us);
        report(&profile, &mut std::io::sink()).unwrap();
        html(&profile, None, &mut std::io::sink()).unwrap();
        dump(&trace, &mut std::io::sink()).unwrap();
    }
}
