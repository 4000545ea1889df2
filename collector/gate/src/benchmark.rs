//! Reads the results of a macrobenchmark: `benchmarkData.json` of androidx.benchmark, and the traces beside it.

use crate::Error;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Limits of a file: its bytes, its benchmarks, and the runs of one.
const MOST_BYTES: u64 = 64 << 20;
const MOST_BENCHMARKS: usize = 1000;
const MOST_RUNS: usize = 1000;

/// The type of a profile that is a trace.
const TRACE: &str = "PerfettoTrace";

#[derive(Debug, Deserialize)]
struct Results {
    benchmarks: Vec<Benchmark>,
}

/// The results of a benchmark.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Benchmark {
    /// Name of the method, with its parameters.
    pub(crate) name: String,
    class_name: String,
    metrics: BTreeMap<String, Metric>,
    sampled_metrics: BTreeMap<String, SampledMetric>,
    profiler_outputs: Vec<Output>,
    /// Directory of the results.
    #[serde(skip)]
    directory: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metric {
    runs: Vec<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SampledMetric {
    runs: Vec<Vec<f64>>,
}

#[derive(Debug, Deserialize)]
struct Output {
    r#type: String,
    filename: PathBuf,
}

impl Benchmark {
    /// Reads the benchmarks of an arm, each by class and name. The runs of several files are concatenated.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<BTreeMap<String, Vec<Self>>, Error> {
        let mut all: BTreeMap<String, Vec<Self>> = BTreeMap::new();
        for path in paths {
            for (name, benchmark) in Self::of_file(path)? {
                all.entry(name).or_default().push(benchmark);
            }
        }
        Ok(all)
    }

    fn of_file(path: &Path) -> Result<Vec<(String, Self)>, Error> {
        let error = |error| Error::Io(path.to_owned(), error);
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(error)?;
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(error)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(Error::TooMuch(path.to_owned()));
        }
        let results: Results =
            serde_json::from_slice(&bytes).map_err(|error| Error::Json(path.to_owned(), error))?;
        if results.benchmarks.len() > MOST_BENCHMARKS {
            return Err(Error::TooMuch(path.to_owned()));
        }
        let directory = path.parent().unwrap_or(Path::new(""));
        let named = results.benchmarks.into_iter().map(|benchmark| {
            let class = benchmark.class_name.rsplit('.').next().unwrap_or_default();
            let name = format!("{class}.{}", benchmark.name);
            (name, Self { directory: directory.to_owned(), ..benchmark })
        });
        Ok(named.collect())
    }

    /// Returns the times that were measured, ms by run: of a metric that is sampled, the means of the runs.
    pub(crate) fn times(&self) -> BTreeMap<&str, Vec<f64>> {
        let mean = |run: &Vec<f64>| run.iter().sum::<f64>() / crate::real(run.len().max(1));
        let single = self.metrics.iter().map(|(name, metric)| (&**name, metric.runs.clone()));
        let sampled = self.sampled_metrics.iter();
        let sampled =
            sampled.map(|(name, metric)| (&**name, metric.runs.iter().map(mean).collect()));
        let is_time = |name: &str, runs: &Vec<f64>| {
            name.ends_with("Ms") && !runs.is_empty() && runs.iter().all(|run| run.is_finite())
        };
        single.chain(sampled).filter(|(name, runs)| is_time(name, runs)).collect()
    }

    /// Returns the files of the traces, by run. A name that leads out of the directory is ignored.
    pub(crate) fn traces(&self) -> Vec<PathBuf> {
        let traces = self.profiler_outputs.iter().filter(|output| output.r#type == TRACE);
        let inside = traces.filter(|output| {
            output.filename.components().all(|part| matches!(part, Component::Normal(_)))
        });
        inside.take(MOST_RUNS).map(|output| self.directory.join(&output.filename)).collect()
    }
}
