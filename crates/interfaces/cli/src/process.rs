//! The async runtime, and the signals that end it.

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// More threads than this make the process larger and the server no faster.
const MOST_WORKERS: usize = 8;

/// A runtime that is small on a laptop and uses the cores there are.
pub(crate) fn build_runtime() -> anyhow::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    Builder::new_multi_thread()
        .worker_threads(cores.clamp(2, MOST_WORKERS))
        .enable_all()
        .build()
        .context("starting the async runtime")
}

/// Ready when the process is asked to stop, by SIGTERM or SIGINT. Both are caught from the moment
/// this returns, so that no start is cut in half.
pub(crate) fn stop_signal() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate()).context("catching SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("catching SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("stopping on SIGTERM"),
            _ = interrupt.recv() => tracing::info!("stopping on SIGINT"),
        }
    })
}
