//! Prints the rows of a simulated rollout as CSV, for estimators of other authors: `rows WORLD SEED [DEVICES]`.
//!
//! A line for each screen (all jank: the key is empty) and each cause of a device, version and day.

use std::io::{BufWriter, Write};
use tracetee_worlds::scenarios;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [world, seed, rest @ ..] = &*arguments else { panic!("usage: rows WORLD SEED [DEVICES]") };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let devices = rest.first().map_or(2500, number) as usize;
    let scenario = scenarios().into_iter().find(|scenario| scenario.name == world);
    let rollout = scenario.expect("the name of a scenario").rollout(number(seed), devices, 14);
    let mut out = BufWriter::new(std::io::stdout().lock());
    writeln!(out, "device,model,version,day,is_first_day,screen,key,frames,ns,factor")?;
    for row in &rollout.rows {
        let model = &rollout.devices[row.device].model;
        let (first_day, day) = (u8::from(row.is_first_day), row.look);
        let head = format!("{},{model},{},{day},{first_day}", row.device, row.version);
        for visit in &row.visits {
            let screen = rollout.screens[visit.screen];
            writeln!(out, "{head},{screen},,{},{},", visit.frames, visit.jank_ns)?;
            for (series, factor) in rollout.series.iter().zip(&rollout.truth.factors) {
                let index = rollout.series.iter().position(|other| other == series);
                let time = row.times.iter().find(|time| Some(time.series) == index);
                if series.screen == screen {
                    let ns = time.map_or(0, |time| time.ns);
                    writeln!(out, "{head},{screen},{},{},{ns},{factor}", series.key, visit.frames)?;
                }
            }
        }
    }
    Ok(())
}
