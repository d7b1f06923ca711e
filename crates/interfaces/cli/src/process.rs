//! The async runtime, and the signals that stop the process.

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// More threads than this use more memory and do not make the server faster.
const MAX_WORKERS: usize = 8;

/// A multi-threaded runtime with one worker per core, up to [`MAX_WORKERS`].
pub(crate) fn build_runtime() -> anyhow::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    Builder::new_multi_thread()
        // Two at least: with one worker a blocking call would stop the health endpoint as well.
        .worker_threads(cores.clamp(2, MAX_WORKERS))
        .enable_all()
        .build()
        .context("starting the async runtime")
}

/// Completes on SIGTERM or SIGINT. Both are caught from the moment this returns, so that a signal
/// during start-up leads to a clean stop.
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
