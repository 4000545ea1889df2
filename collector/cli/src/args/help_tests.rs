//! All texts that `--help` prints, compared with `tests/snapshots/help.snap`: a change of one is seen in a review.

use super::Cli;
use clap::{Command, CommandFactory};
use std::fmt::Write;

fn commands() -> Vec<Command> {
    let mut program = Cli::command().term_width(100);
    program.build();
    let mut all = vec![program];
    let mut index = 0;
    while let Some(command) = all.get(index) {
        let below: Vec<_> = command
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
            .cloned()
            .collect();
        index += 1;
        all.splice(index..index, below);
    }
    all
}

#[test]
fn help_is_as_reviewed() {
    let mut text = String::new();
    for mut command in commands() {
        let name = command.get_bin_name().unwrap_or("tracetee").to_owned();
        let help = command.render_long_help();
        let help = help.to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        writeln!(text, "===== {name} --help\n{}\n", help.join("\n")).unwrap();
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../tests/snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("help", text));
}

#[test]
fn help_of_a_command_is_an_imperative_of_ten_words() {
    for command in commands() {
        let about = command.get_about().expect("help for each command").to_string();
        let first = about.split_whitespace().next().unwrap();
        assert!(about.split_whitespace().count() <= 10, "{about}");
        assert!(
            first.starts_with(char::is_uppercase) && !first.ends_with('s'),
            "not an imperative: {about}"
        );
        for argument in command.get_arguments() {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.is_empty(), "{} {}", command.get_name(), argument.get_id());
        }
    }
}

#[test]
fn help_begins_with_a_verb_or_a_noun() {
    const VAGUE: [&str; 11] = [
        "What ", "Where ", "When ", "How ", "Whether ", "Who ", "Its ", "Of ", "As ", "For ",
        "And ",
    ];
    for command in commands() {
        let abouts = [command.get_about(), command.get_long_about()];
        let arguments = command.get_arguments();
        let helps = arguments.flat_map(|argument| [argument.get_help(), argument.get_long_help()]);
        let values = command.get_arguments().flat_map(clap::Arg::get_possible_values);
        let values = values.filter_map(|value| value.get_help().map(ToString::to_string));
        let texts = abouts.into_iter().chain(helps).flatten().map(ToString::to_string);
        for text in texts.chain(values) {
            assert!(!VAGUE.iter().any(|word| text.starts_with(word)), "{text}");
        }
    }
}
