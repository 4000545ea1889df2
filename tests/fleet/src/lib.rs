//! Shared parts of the fleet tests: tools not written in Rust, which `tests/run` installs.

use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use tracetee_fleet::simulate::Simulated;
use tracetee_tests::cache;
use tracetee_tests::tools::tool;

/// The Python that has duckdb and pyspark, and the directory of the jars that Spark needs for S3.
#[must_use]
pub fn engines() -> Option<(PathBuf, PathBuf)> {
    let engines = cache("engines");
    let python = engines.join("venv/bin/python");
    let is_there = |path: &Path| path.exists().then(|| path.to_owned());
    let python = tool(is_there(&python), "a Python with duckdb and pyspark")?;
    let jars = tool(is_there(&engines.join("jars")), "hadoop-aws")?;
    Some((python, jars))
}

/// The metadata of a simulated capture, as the header of its upload carries it.
#[must_use]
pub fn meta_of(capture: &Simulated) -> Map<String, Value> {
    serde_json::from_str(&capture.meta.to_json()).unwrap()
}
