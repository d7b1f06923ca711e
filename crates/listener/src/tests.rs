use std::net::{Ipv4Addr, SocketAddr};

use anyhow::ensure;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::*;

const LIMITS: Limits = Limits {
    clients: 16,
    streams: Some(10),
    drain: Duration::from_mins(1),
};
/// How a client begins that speaks HTTP/2 without being asked (RFC 9113, 3.4), and its settings.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A server that holds back every answer until it gets a permit for it.
struct Held {
    address: SocketAddr,
    permits: Arc<Semaphore>,
    asked: Arc<Semaphore>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Held {
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

    async fn is_asked(&self) -> anyhow::Result<()> {
        self.asked.acquire().await?.forget();
        Ok(())
    }

    /// Sends something and reads all that comes.
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

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";

fn is_answered(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(b"\r\n\r\nhere")
}

#[tokio::test]
async fn what_is_under_way_is_answered_when_the_server_stops() -> anyhow::Result<()> {
    let server = Held::start(LIMITS).await?;
    let answer = server.ask(GET);
    server.is_asked().await?;
    let _ = server.stop.send(());
    // Nobody is let in any more, once the listener is gone.
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    server.permits.add_permits(1);
    assert!(is_answered(&answer.await??));
    server.task.await?;
    Ok(())
}

#[tokio::test]
async fn who_keeps_the_server_waiting_is_left_behind() -> anyhow::Result<()> {
    let hasty = Limits {
        drain: Duration::ZERO,
        ..LIMITS
    };
    let server = Held::start(hasty).await?;
    let answer = server.ask(GET);
    server.is_asked().await?;
    let _ = server.stop.send(());
    server.task.await?;
    assert!(answer.await?.is_ok_and(|answer| answer.is_empty()));
    Ok(())
}

#[tokio::test]
async fn one_more_client_than_there_may_be_waits() -> anyhow::Result<()> {
    let one = Limits {
        clients: 1,
        ..LIMITS
    };
    let server = Held::start(one).await?;
    let first = server.ask(GET);
    server.is_asked().await?;
    let second = server.ask(GET);
    // Were the second let in beside the first, two answers would be waited for.
    server.permits.add_permits(1);
    assert!(is_answered(&first.await??));
    server.is_asked().await?;
    assert!(!second.is_finished());
    server.permits.add_permits(1);
    assert!(is_answered(&second.await??));
    Ok(())
}

#[tokio::test]
async fn http_2_is_spoken_where_it_is_allowed() -> anyhow::Result<()> {
    let server = Held::start(LIMITS).await?;
    let mut stream = TcpStream::connect(server.address).await?;
    stream.write_all(HTTP2).await?;
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await?;
    assert_eq!(frame[3], 4, "the server has settings, too: {frame:?}");

    let old = Limits {
        streams: None,
        ..LIMITS
    };
    let server = Held::start(old).await?;
    // It is not even told so; a reset is as good.
    let answer = server.ask(HTTP2).await?.unwrap_or_default();
    assert!(answer.is_empty(), "{answer:?}");
    Ok(())
}

/// The end of a client that speaks to a server of so much patience. The server ends with the task, and does not stop
/// before.
fn spoken_to(patience: Duration) -> (DuplexStream, JoinHandle<()>) {
    let (theirs, ours) = tokio::io::duplex(1024);
    let answer = any(async |_| text(StatusCode::OK, "here"));
    let conversation = tokio::spawn(async move {
        let (_stopping, stopped) = watch::channel(false);
        converse(Box::new(ours), Some(10), answer, stopped, patience).await;
    });
    (theirs, conversation)
}

#[tokio::test]
async fn who_says_nothing_is_not_listened_to_for_ever() -> anyhow::Result<()> {
    for beginning in [&b""[..], b"PRI * HT", HTTP2] {
        let (mut theirs, conversation) = spoken_to(Duration::from_millis(1));
        theirs.write_all(beginning).await?;
        let mut said = Vec::new();
        // A reset is as good.
        let _ = theirs.read_to_end(&mut said).await;
        conversation.await?;
    }
    Ok(())
}

#[tokio::test]
async fn who_has_asked_may_take_a_break() -> anyhow::Result<()> {
    let patience = Duration::from_millis(50);
    let (mut theirs, conversation) = spoken_to(patience);
    theirs
        .write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        .await?;
    let mut first = Vec::new();
    while !is_answered(&first) {
        ensure!(theirs.read_buf(&mut first).await? > 0, "{first:?}");
    }
    tokio::time::sleep(patience * 4).await;
    theirs.write_all(GET).await?;
    let mut second = Vec::new();
    theirs.read_to_end(&mut second).await?;
    assert!(is_answered(&second), "{second:?}");
    conversation.await?;
    Ok(())
}
