//! A server that misbehaves by a script: it truncates, lies, delays, and sends endless responses.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// A received request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// `GET`, `HEAD`, ...
    pub method: String,
    /// The path with the query.
    pub path: String,
    headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Asked {
    /// A header's value, if it is present.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The start of the requested range, or 0.
    pub fn offset(&self) -> usize {
        self.header("range")
            .and_then(|range| {
                range
                    .strip_prefix("bytes=")?
                    .strip_suffix('-')?
                    .parse()
                    .ok()
            })
            .unwrap_or(0)
    }
}

/// A response, well-formed or not.
#[derive(Debug, Clone)]
pub struct ScriptedResponse {
    code: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    /// A complete response.
    Whole(Bytes),
    /// Announces more bytes than it sends, and closes.
    Cut(Bytes, usize),
    /// Sends chunks of a size, with pauses.
    Slow(Bytes, usize, Duration),
    /// Repeats the same chunk without end and without a length.
    Endless(Bytes),
    /// Announces a body, and sends nothing.
    Stalled(usize),
    /// Sends the beginning at once, and the rest byte by byte with pauses.
    Trickling(Bytes, usize, Duration),
    /// Never responds.
    Silent,
    /// Closes the connection without a response.
    Closed,
}

impl ScriptedResponse {
    fn new(code: u16, body: Body) -> Self {
        let headers = Vec::new();
        Self {
            code,
            headers,
            body,
        }
    }

    /// A complete response.
    pub fn answer(code: u16, body: impl Into<Bytes>) -> Self {
        Self::new(code, Body::Whole(body.into()))
    }

    /// Announces `length` bytes and closes after the actual body.
    pub fn cut(code: u16, body: impl Into<Bytes>, length: usize) -> Self {
        Self::new(code, Body::Cut(body.into(), length))
    }

    /// Sends chunks of `size` bytes with a pause before each.
    pub fn slow(body: impl Into<Bytes>, size: usize, pause: Duration) -> Self {
        Self::new(200, Body::Slow(body.into(), size.max(1), pause))
    }

    /// Repeats a chunk until the client disconnects.
    pub fn endless(piece: impl Into<Bytes>) -> Self {
        Self::new(200, Body::Endless(piece.into()))
    }

    /// Sends headers that announce `length` bytes, and then nothing.
    pub fn stalled(length: usize) -> Self {
        Self::new(200, Body::Stalled(length))
    }

    /// Sends `at_once` bytes, and the rest one by one with a pause before each.
    pub fn trickling(code: u16, body: impl Into<Bytes>, at_once: usize, pause: Duration) -> Self {
        Self::new(code, Body::Trickling(body.into(), at_once, pause))
    }

    /// Never responds.
    pub fn silent() -> Self {
        Self::new(200, Body::Silent)
    }

    /// Closes the connection.
    pub fn closed() -> Self {
        Self::new(200, Body::Closed)
    }

    /// A redirect.
    pub fn redirect(to: &str) -> Self {
        Self::answer(307, Bytes::new()).with("Location", to)
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// The first byte of a TLS handshake, which HTTP never starts with.
const HANDSHAKE: u8 = 0x16;

type Script = dyn Fn(&Asked) -> ScriptedResponse + Send + Sync;

/// The server. It stops when it is dropped.
#[derive(Debug)]
pub struct FaultyServer {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl FaultyServer {
    /// Starts a server on a free port of the loopback address that responds by a script.
    pub async fn start(
        script: impl Fn(&Asked) -> ScriptedResponse + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("listening")?;
        let port = listener.local_addr()?.port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Script> = Arc::new(script);
        let mut tasks = JoinSet::new();
        let log = Arc::clone(&asked);
        tasks.spawn(async move {
            // Connections end with this task.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                connections.spawn(async move {
                    // Clients that disconnect are part of the tests.
                    let _ = serve(stream, &*script, &log).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            port,
            asked,
            _tasks: tasks,
        })
    }

    /// Host and port.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    script: &Script,
    log: &Mutex<Vec<Asked>>,
) -> anyhow::Result<()> {
    let asked = read(&mut stream).await?;
    let answer = script(&asked);
    let is_head = asked.method == "HEAD";
    log.lock().push(asked);
    let length = match &answer.body {
        Body::Whole(body) | Body::Slow(body, ..) | Body::Trickling(body, ..) => Some(body.len()),
        Body::Cut(_, length) | Body::Stalled(length) => Some(*length),
        Body::Endless(_) => None,
        Body::Closed => return Ok(()),
        Body::Silent => std::future::pending().await,
    };
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", answer.code);
    if let Some(length) = length {
        write!(head, "Content-Length: {length}\r\n")?;
    }
    for (name, value) in &answer.headers {
        write!(head, "{name}: {value}\r\n")?;
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    if is_head {
        return Ok(());
    }
    match answer.body {
        Body::Whole(body) | Body::Cut(body, _) => stream.write_all(&body).await?,
        Body::Slow(body, size, pause) => {
            for piece in body.chunks(size) {
                tokio::time::sleep(pause).await;
                stream.write_all(piece).await?;
            }
        }
        Body::Endless(piece) => loop {
            stream.write_all(&piece).await?;
        },
        Body::Trickling(body, at_once, pause) => {
            let (first, rest) = body.split_at(at_once.min(body.len()));
            stream.write_all(first).await?;
            for byte in rest.chunks(1) {
                tokio::time::sleep(pause).await;
                stream.write_all(byte).await?;
            }
        }
        Body::Stalled(_) => std::future::pending().await,
        Body::Silent | Body::Closed => {}
    }
    stream.shutdown().await?;
    Ok(())
}

async fn read(stream: &mut TcpStream) -> anyhow::Result<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        // A client that attempts TLS would wait for an answer before it falls back to plain HTTP.
        anyhow::ensure!(
            bytes.first() != Some(&TLS_HANDSHAKE),
            "this server has no TLS"
        );
        anyhow::ensure!(bytes.len() < 64 * 1024, "a long request");
        // Fails at once, so that a client that attempts TLS falls back immediately.
        anyhow::ensure!(bytes.first() != Some(&HANDSHAKE), "TLS");
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "half a request");
    };
    let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (
        first.next().unwrap_or_default(),
        first.next().unwrap_or_default(),
    );
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    let mut asked = Asked {
        method: method.to_owned(),
        path: path.to_owned(),
        headers,
        body: String::new(),
    };
    let length: usize = asked
        .header("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    while bytes.len() < end + 4 + length {
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "half a body");
    }
    asked.body = String::from_utf8_lossy(bytes.get(end + 4..).unwrap_or_default()).into_owned();
    Ok(asked)
}
