//! Decompresses clusters on several threads, in order.
//!
//! The n-th cluster goes to thread n modulo their number and comes back from there, so results have the
//! order of requests without sorting. The clusters in flight are bounded by bytes.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use flate2::{Decompress, FlushDecompress};
use zstd::stream::raw::{InBuffer, Operation as _, OutBuffer};

use super::Qcow2Error;
use super::header::Compression;

/// Upper bound of bytes in flight, compressed and not.
const MAX_BYTES_IN_FLIGHT: usize = 6 << 20;

/// Clusters in flight per thread.
const CLUSTERS_PER_THREAD: usize = 8;

/// The largest window of a compressed cluster. QEMU's encoder does not know the size beforehand and uses one
/// of 2 MiB.
const MAX_WINDOW_LOG: u32 = 23;

/// One cluster for a thread.
struct Request {
    guest: u64,
    data: Vec<u8>,
}

/// The result of a cluster.
pub(super) type Answer = Result<(u64, Vec<u8>), Qcow2Error>;

struct Worker {
    requests: Option<SyncSender<Request>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

/// Decompresses clusters.
pub(super) struct Inflater {
    compression: Compression,
    cluster: usize,
    threads: usize,
    workers: Vec<Worker>,
    /// Which worker has the next answer, for each cluster under way.
    order: VecDeque<usize>,
    next: usize,
    most: usize,
    inline: Option<Decoder>,
    ready: VecDeque<Answer>,
}

impl std::fmt::Debug for Inflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflater")
            .field("threads", &self.threads)
            .field("under_way", &self.order.len())
            .finish_non_exhaustive()
    }
}

impl Inflater {
    /// Threads are started on demand; with zero threads, clusters are decompressed by the caller.
    pub(super) fn new(compression: Compression, cluster: usize, threads: usize) -> Self {
        let most =
            (MAX_BYTES_IN_FLIGHT / (cluster * 2)).clamp(1, CLUSTERS_PER_THREAD * threads.max(1));
        Self {
            compression,
            cluster,
            threads: threads.min(most),
            workers: Vec::new(),
            order: VecDeque::new(),
            next: 0,
            most,
            inline: None,
            ready: VecDeque::new(),
        }
    }

    fn start(&mut self) -> Result<(), Qcow2Error> {
        for _ in self.workers.len()..self.threads {
            let (requests, inbox) = sync_channel::<Request>(CLUSTERS_PER_THREAD);
            let (outbox, answers) = sync_channel(CLUSTERS_PER_THREAD);
            let (compression, cluster) = (self.compression, self.cluster);
            let thread = std::thread::Builder::new()
                .name("disk-inflate".to_owned())
                .spawn(move || {
                    let Ok(mut decoder) = Decoder::new(compression) else {
                        return;
                    };
                    for request in inbox {
                        let answer = decoder.cluster(request.guest, &request.data, cluster);
                        if outbox.send(answer).is_err() {
                            return;
                        }
                    }
                })
                .map_err(|_| Qcow2Error::Threads)?;
            self.workers.push(Worker {
                requests: Some(requests),
                answers,
                thread: Some(thread),
            });
        }
        Ok(())
    }

    /// Submits a cluster. Returns a result, of this or an earlier one, if enough are in flight;
    /// otherwise `None`.
    pub(super) fn submit(
        &mut self,
        guest: u64,
        data: Vec<u8>,
    ) -> Result<Option<Answer>, Qcow2Error> {
        if self.threads == 0 {
            let decoder = match &mut self.inline {
                Some(decoder) => decoder,
                none => none.insert(Decoder::new(self.compression)?),
            };
            self.ready
                .push_back(decoder.cluster(guest, &data, self.cluster));
            return Ok(self.ready.pop_front());
        }
        self.start()?;
        let answer = if self.order.len() >= self.most {
            self.answer()?
        } else {
            None
        };
        let worker = self
            .workers
            .get(self.next)
            .and_then(|worker| worker.requests.as_ref())
            .ok_or(Qcow2Error::Threads)?;
        worker
            .send(Request { guest, data })
            .map_err(|_| Qcow2Error::Threads)?;
        self.order.push_back(self.next);
        // Round robin in both directions is what keeps results in order without a sorting buffer. A slow cluster
        // delays the others, but at most by the eight that its thread has queued.
        self.next = (self.next + 1) % self.threads;
        Ok(answer)
    }

    /// Waits for the oldest cluster in flight.
    pub(super) fn answer(&mut self) -> Result<Option<Answer>, Qcow2Error> {
        let Some(worker) = self.order.pop_front() else {
            return Ok(None);
        };
        self.workers
            .get(worker)
            .ok_or(Qcow2Error::Threads)?
            .answers
            .recv()
            .map(Some)
            .map_err(|_| Qcow2Error::Threads)
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.requests = None;
        }
        for worker in &mut self.workers {
            // Drain the results, so that a blocked thread can end.
            // Joining first would deadlock: the thread may be blocked in `send` on its full channel.
            while worker.answers.recv().is_ok() {}
            if let Some(thread) = worker.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// A reusable decoder.
enum Decoder {
    Zlib(Decompress),
    Zstd(zstd::stream::raw::Decoder<'static>),
}

impl Decoder {
    fn new(compression: Compression) -> Result<Self, Qcow2Error> {
        Ok(match compression {
            Compression::Zlib => Self::Zlib(Decompress::new(false)),
            Compression::Zstd => {
                let mut decoder =
                    zstd::stream::raw::Decoder::new().map_err(|_| Qcow2Error::Threads)?;
                // A cluster has at most 2 MiB, so a larger window is never needed.
                decoder
                    .set_parameter(zstd::stream::raw::DParameter::WindowLogMax(MAX_WINDOW_LOG))
                    .map_err(|_| Qcow2Error::Threads)?;
                Self::Zstd(decoder)
            }
        })
    }

    /// QEMU decompresses a full cluster, and ignores trailing data.
    fn cluster(&mut self, guest: u64, data: &[u8], size: usize) -> Answer {
        let mut out = vec![0; size];
        let made = match self {
            Self::Zlib(decoder) => {
                decoder.reset(false);
                decoder
                    .decompress(data, &mut out, FlushDecompress::Finish)
                    .map_err(|error| error.to_string())
                    .map(|_| usize::try_from(decoder.total_out()).unwrap_or(0))
            }
            Self::Zstd(decoder) => zstd_cluster(decoder, data, &mut out),
        };
        match made {
            Ok(made) if made == size => Ok((guest, out)),
            Ok(made) => Err(Qcow2Error::Cluster {
                guest,
                why: format!("{made} bytes came out of {size}"),
            }),
            Err(why) => Err(Qcow2Error::Cluster { guest, why }),
        }
    }
}

fn zstd_cluster(
    decoder: &mut zstd::stream::raw::Decoder<'static>,
    data: &[u8],
    out: &mut [u8],
) -> Result<usize, String> {
    let text = |error: std::io::Error| error.to_string();
    decoder.reinit().map_err(text)?;
    let size = out.len();
    let mut input = InBuffer::around(data);
    let mut output = OutBuffer::around(out);
    while output.pos() < size {
        let before = (input.pos(), output.pos());
        decoder.run(&mut input, &mut output).map_err(text)?;
        if before == (input.pos(), output.pos()) {
            break;
        }
    }
    Ok(output.pos())
}
