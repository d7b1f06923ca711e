//! The open connections of a listener: how many there may be, and which one is closed in favour of
//! a new one.
//!
//! A connection is idle while no request of it is being answered; one that has not sent its first
//! request yet is idle, too. Connections cost a client nothing, so a plain limit lets one client
//! that opens enough of them lock out all others (probes among them). Therefore a full listener
//! closes the longest idle connection instead of refusing a new one, and counts by address first: a
//! client can only displace its own connections once it has its share.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{AnyBody, Limits};

/// The connections of one listener; clones share them.
#[derive(Clone)]
pub(crate) struct Connections {
    table: Arc<Table>,
    limits: Limits,
}

struct Table {
    open: Mutex<Open>,
    /// A connection ended or became idle.
    freed: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Arc<Connection>>,
}

/// One connection, shared by the listener and the task that serves it.
pub(crate) struct Connection {
    source: IpAddr,
    state: Mutex<State>,
    evicted: Notify,
    table: Arc<Table>,
}

struct State {
    /// Requests that are being answered, the bodies of their responses included.
    requests: usize,
    idle_since: Instant,
    asked: bool,
    http2: bool,
    is_evicted: bool,
}

/// Registration of an open connection; removed on drop.
pub(crate) struct Registration {
    id: u64,
    connection: Arc<Connection>,
}

impl Connections {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            table: Arc::new(Table {
                open: Mutex::default(),
                freed: Notify::new(),
            }),
            limits,
        }
    }

    /// Whether another connection can be accepted: below the limit, or by closing an idle one.
    pub(crate) fn has_capacity(&self) -> bool {
        let open = self.table.open.lock();
        open.connections.len() < self.limits.clients
            || open
                .connections
                .values()
                .any(|it| it.idle_since().is_some())
    }

    /// Completes when a connection has ended or become idle since the last call.
    pub(crate) async fn freed(&self) {
        self.table.freed.notified().await;
    }

    /// Accepts a connection from this address, in favour of which an idle one may be closed. `None`
    /// if its address has its share and all of those are busy.
    pub(crate) fn admit(&self, address: IpAddr) -> Option<Registration> {
        let source = source(address);
        let mut open = self.table.open.lock();
        let same = open.connections.values().filter(|it| it.source == source);
        if same.count() >= self.limits.per_address {
            // By address first. The other order would let a client at its limit displace
            // connections of others.
            let victim = open.longest_idle(|it| it.source == source)?;
            open.evict(victim);
        } else if open.connections.len() >= self.limits.clients
            && let Some(victim) = open.longest_idle(|_| true)
        {
            open.evict(victim);
        }
        let id = open.next;
        open.next += 1;
        let connection = Arc::new(Connection {
            source,
            state: Mutex::new(State {
                requests: 0,
                idle_since: Instant::now(),
                asked: false,
                http2: false,
                is_evicted: false,
            }),
            evicted: Notify::new(),
            table: Arc::clone(&self.table),
        });
        open.connections.insert(id, Arc::clone(&connection));
        Some(Registration { id, connection })
    }
}

impl Open {
    /// The connection to close. One that never sent a request goes before any that did: API servers
    /// and browsers reuse theirs.
    fn longest_idle(&self, of: impl Fn(&Connection) -> bool) -> Option<u64> {
        let idle = self.connections.iter().filter(|(_, it)| of(it));
        let idle = idle.filter_map(|(id, it)| Some((it.idle_since()?, *id)));
        // `false` sorts before `true`: connections without a request first, then by time.
        idle.min().map(|(_, id)| id)
    }

    fn evict(&mut self, id: u64) {
        if let Some(connection) = self.connections.remove(&id) {
            connection.state.lock().is_evicted = true;
            // `notify_one` keeps a permit if the task does not wait yet, so that an eviction during
            // the handshake is not lost.
            connection.evicted.notify_one();
        }
    }
}

/// What counts as one client: an IPv4 address, or the 64-bit prefix that a host gets of IPv6, within which it can
/// have any number of addresses.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(prefix).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

impl Registration {
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let table = &self.connection.table;
        table.open.lock().connections.remove(&self.id);
        table.freed.notify_one();
    }
}

impl Connection {
    /// Whether it has ever sent a request, and since when it is idle; `None` while it is busy.
    fn idle_since(&self) -> Option<(bool, Instant)> {
        let state = self.state.lock();
        (state.requests == 0).then_some((state.asked, state.idle_since))
    }

    /// Completes when the connection is to be closed for another.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    pub(crate) fn has_sent_request(&self) -> bool {
        self.state.lock().asked
    }

    /// Whether the next bytes belong to the head of an HTTP/1 request that is not the first one.
    pub(crate) fn awaits_next_head(&self) -> bool {
        let state = self.state.lock();
        state.asked && !state.http2 && state.requests == 0
    }

    /// Marks a request as in flight until the returned guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, http2: bool) -> InFlight {
        let mut state = self.state.lock();
        state.requests += 1;
        state.asked = true;
        state.http2 = http2;
        drop(state);
        InFlight(Arc::clone(self))
    }
}

/// A request in flight.
pub(crate) struct InFlight(Arc<Connection>);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.requests = state.requests.saturating_sub(1);
        if state.requests == 0 {
            state.idle_since = Instant::now();
            let is_evicted = state.is_evicted;
            drop(state);
            // An evicted connection has already made room, and is no longer in the table.
            if !is_evicted {
                self.0.table.freed.notify_one();
            }
        }
    }
}

/// A response body that keeps its request in flight until it has been sent: a watch is not idle.
pub(crate) struct Tracked {
    body: AnyBody,
    _request: InFlight,
}

impl Tracked {
    pub(crate) fn new(body: AnyBody, request: InFlight) -> Self {
        Self {
            body,
            _request: request,
        }
    }
}

impl Body for Tracked {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
