use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::ensure;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::*;

const LIMITS: Limits = Limits {
    clients: 16,
    per_address: 16,
    streams: Some(10),
    drain: Duration::from_mins(1),
};
/// HTTP/2 connection preface with prior knowledge (RFC 9113, 3.4), and settings.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A server that holds back every response until it gets a permit for it.
struct HeldServer {
    address: SocketAddr,
    permits: Arc<Semaphore>,
    asked: Arc<Semaphore>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl HeldServer {
    async fn start(limits: Limits) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (permits, asked) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (stop, stopped) = oneshot::channel();
        let (wait, count) = (Arc::clone(&permits), Arc::clone(&asked));
        let answer = move |_| {
            let wait = Arc::clone(&wait);
            count.add_permits(1);
            async move {
                if let Ok(permit) = wait.acquire().await {
                    permit.forget();
                }
                text(StatusCode::OK, "here")
            }
        };
        let stop_it = async move {
            let _ = stopped.await;
        };
        let task = tokio::spawn(serve(listener, None, limits, answer, stop_it));
        Ok(Self {
            address,
            permits,
            asked,
            stop,
            task,
        })
    }

    async fn wait_for_request(&self) -> anyhow::Result<()> {
        self.asked.acquire().await?.forget();
        Ok(())
    }

    /// Sends a request and reads the whole response.
    fn ask(&self, request: &'static [u8]) -> JoinHandle<std::io::Result<Vec<u8>>> {
        let address = self.address;
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(request).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            Ok(answer)
        })
    }
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";

fn is_answered(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(b"\r\n\r\nhere")
}

#[tokio::test]
async fn requests_in_flight_finish_when_the_server_stops() -> anyhow::Result<()> {
    let server = HeldServer::start(LIMITS).await?;
    let answer = server.ask(GET);
    server.wait_for_request().await?;
    let _ = server.stop.send(());
    // No connection is accepted once the listener is gone.
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    server.permits.add_permits(1);
    assert!(is_answered(&answer.await??));
    server.task.await?;
    Ok(())
}

#[tokio::test]
async fn drain_timeout_cuts_off_slow_clients() -> anyhow::Result<()> {
    let hasty = Limits {
        drain: Duration::ZERO,
        ..LIMITS
    };
    let server = HeldServer::start(hasty).await?;
    let answer = server.ask(GET);
    server.wait_for_request().await?;
    let _ = server.stop.send(());
    server.task.await?;
    assert!(answer.await?.is_ok_and(|answer| answer.is_empty()));
    Ok(())
}

#[tokio::test]
async fn client_beyond_the_limit_waits() -> anyhow::Result<()> {
    let one = Limits {
        clients: 1,
        ..LIMITS
    };
    let server = HeldServer::start(one).await?;
    let first = server.ask(GET);
    server.wait_for_request().await?;
    let second = server.ask(GET);
    // If the second were accepted beside the first, two responses would be waited for.
    server.permits.add_permits(1);
    assert!(is_answered(&first.await??));
    server.wait_for_request().await?;
    assert!(!second.is_finished());
    server.permits.add_permits(1);
    assert!(is_answered(&second.await??));
    Ok(())
}

#[tokio::test]
async fn http_2_is_spoken_where_it_is_allowed() -> anyhow::Result<()> {
    let server = HeldServer::start(LIMITS).await?;
    let mut stream = TcpStream::connect(server.address).await?;
    stream.write_all(HTTP2).await?;
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await?;
    assert_eq!(frame[3], 4, "the server has settings, too: {frame:?}");

    let old = Limits {
        streams: None,
        ..LIMITS
    };
    let server = HeldServer::start(old).await?;
    // The connection is closed without a response; a reset is as good.
    let answer = server.ask(HTTP2).await?.unwrap_or_default();
    assert!(answer.is_empty(), "{answer:?}");
    Ok(())
}

/// The client end of a connection to a server with this timeout. The server ends with the task, and
/// does not stop before.
fn client_of(head_timeout: Duration) -> (DuplexStream, JoinHandle<()>) {
    let (theirs, ours) = tokio::io::duplex(1024);
    let answer = any(async |_| text(StatusCode::OK, "here"));
    let conversation = tokio::spawn(async move {
        let (_stopping, stopped) = watch::channel(false);
        let registration = Connections::new(LIMITS).admit(HERE);
        let registration = registration.expect("the first client has room");
        converse(
            Box::new(ours),
            &registration,
            Some(10),
            answer,
            stopped,
            head_timeout,
        )
        .await;
    });
    (theirs, conversation)
}

#[tokio::test]
async fn silent_client_is_disconnected() -> anyhow::Result<()> {
    for beginning in [&b""[..], b"PRI * HT", HTTP2] {
        let (mut theirs, conversation) = client_of(Duration::from_millis(1));
        theirs.write_all(beginning).await?;
        let mut said = Vec::new();
        // A reset is as good.
        let _ = theirs.read_to_end(&mut said).await;
        conversation.await?;
    }
    Ok(())
}

#[tokio::test]
async fn idle_client_keeps_its_connection() -> anyhow::Result<()> {
    let head_timeout = Duration::from_millis(50);
    let (mut theirs, conversation) = client_of(head_timeout);
    theirs
        .write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        .await?;
    let mut first = Vec::new();
    while !is_answered(&first) {
        ensure!(theirs.read_buf(&mut first).await? > 0, "{first:?}");
    }
    tokio::time::sleep(head_timeout * 4).await;
    theirs.write_all(GET).await?;
    let mut second = Vec::new();
    theirs.read_to_end(&mut second).await?;
    assert!(is_answered(&second), "{second:?}");
    conversation.await?;
    Ok(())
}

#[tokio::test]
async fn idle_connections_are_closed_for_new_ones() -> anyhow::Result<()> {
    for limits in [
        Limits {
            clients: 4,
            ..LIMITS
        },
        Limits {
            per_address: 4,
            ..LIMITS
        },
    ] {
        let server = HeldServer::start(limits).await?;
        let mut idle = Vec::new();
        for _ in 0..40 {
            idle.push(TcpStream::connect(server.address).await?);
        }
        server.permits.add_permits(1);
        assert!(is_answered(&server.ask(GET).await??));
        // The longest idle one was closed first.
        let mut first = idle.remove(0);
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(CLIENT_TIMEOUT / 2, first.read_to_end(&mut rest));
        let _ = closed.await?;
    }
    Ok(())
}

#[tokio::test]
async fn busy_connections_are_never_closed_for_new_ones() -> anyhow::Result<()> {
    let few = Limits {
        per_address: 2,
        ..LIMITS
    };
    let server = HeldServer::start(few).await?;
    let answers = [server.ask(GET), server.ask(GET)];
    server.wait_for_request().await?;
    server.wait_for_request().await?;
    // The address has its share, and none of it is idle.
    let refused = server.ask(GET).await?.unwrap_or_default();
    assert!(refused.is_empty(), "{refused:?}");
    server.permits.add_permits(2);
    for answer in answers {
        assert!(is_answered(&answer.await??));
    }
    server.permits.add_permits(1);
    assert!(is_answered(&server.ask(GET).await??));
    Ok(())
}

async fn is_evicted(registration: &Registration) -> bool {
    let evicted = registration.connection().evicted();
    let evicted = tokio::time::timeout(Duration::from_millis(10), evicted);
    evicted.await.is_ok()
}

#[tokio::test]
async fn address_with_its_share_displaces_only_its_own_connections() -> anyhow::Result<()> {
    let limits = Limits {
        clients: 8,
        per_address: 4,
        ..LIMITS
    };
    let connections = Connections::new(limits);
    let [flood, other]: [IpAddr; 2] = ["10.0.0.1".parse()?, "10.0.0.2".parse()?];
    let kept: Vec<Registration> = (0..4).filter_map(|_| connections.admit(other)).collect();
    assert_eq!(kept.len(), 4);
    let seats: Vec<Registration> = (0..100).filter_map(|_| connections.admit(flood)).collect();
    assert_eq!(seats.len(), 100);
    for registration in &kept {
        assert!(!is_evicted(registration).await);
    }
    for (index, registration) in seats.iter().enumerate() {
        assert_eq!(is_evicted(registration).await, index < 96, "{index}");
    }
    Ok(())
}

#[tokio::test]
async fn connections_without_a_request_go_before_those_that_had_one() -> anyhow::Result<()> {
    let limits = Limits {
        clients: 2,
        ..LIMITS
    };
    let connections = Connections::new(limits);
    let [used, silent]: [IpAddr; 2] = ["10.0.0.1".parse()?, "10.0.0.2".parse()?];
    let used = connections.admit(used).expect("room for one");
    drop(used.connection().begin(false));
    let silent = connections.admit(silent).expect("room for two");
    let _third = connections
        .admit("10.0.0.3".parse()?)
        .expect("room is made");
    assert!(is_evicted(&silent).await);
    assert!(!is_evicted(&used).await);
    Ok(())
}

#[tokio::test]
async fn addresses_of_one_ipv6_prefix_are_one_client() -> anyhow::Result<()> {
    let one = Limits {
        per_address: 1,
        ..LIMITS
    };
    for (first, second, same) in [
        ("2001:db8::1", "2001:db8::2:3:4:5", true),
        ("2001:db8::1", "2001:db8:0:1::1", false),
        ("::ffff:10.0.0.1", "10.0.0.1", true),
        ("10.0.0.1", "10.0.0.2", false),
    ] {
        let connections = Connections::new(one);
        let first_seat = connections.admit(first.parse()?).expect("room");
        let _under_way = first_seat.connection().begin(false);
        let second_seat = connections.admit(second.parse()?);
        assert_eq!(second_seat.is_none(), same, "{first} {second}");
    }
    Ok(())
}

#[tokio::test]
async fn slow_head_of_a_later_request_ends_the_connection() -> anyhow::Result<()> {
    let (mut theirs, conversation) = client_of(Duration::from_millis(50));
    theirs
        .write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        .await?;
    let mut first = Vec::new();
    while !is_answered(&first) {
        ensure!(theirs.read_buf(&mut first).await? > 0, "{first:?}");
    }
    theirs.write_all(b"GET / HTTP/1.1\r\nhost:").await?;
    // hyper itself would wait for the keep-alive timeout.
    tokio::time::timeout(KEEP_ALIVE_TIMEOUT / 4, conversation).await??;
    Ok(())
}
