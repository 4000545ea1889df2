//! `tracetee demo`: gives the demo the parts of this program that it needs.

use super::doctor;
use crate::args::DemoArgs;
use crate::terminal::print_report;
use crate::{agent_library, embedded};
use anyhow::Result;
use tracetee_demo::Program;

pub(crate) fn demo(args: &DemoArgs) -> Result<()> {
    let program = Program {
        library: &agent_library::install()?,
        app: embedded::sample_app()?,
        print: print_report,
        health: doctor::health,
        marker: doctor::marker,
        push_summary: doctor::push_summary,
    };
    tracetee_demo::demo(&program, &args.output)
}
