//! Drives Chromium as a user does: page content, keyboard, contrast, and the browser's log.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use fantoccini::elements::Element;
use fantoccini::key::Key;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use testkit::{Process, free_port};

use crate::binary::Server;

const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
/// Screen widths: desktop and phone.
const WIDTHS: [u32; 2] = [1400, 400];
/// Screen height.
const HEIGHT: u32 = 900;
/// Screenshots are cut at this height.
const MAX_PICTURE_HEIGHT: u32 = 6000;

/// Text with too little contrast, as `text: ratio`: 4.5 to 1, or 3 to 1 if it is large (WCAG 2, AA).
const LOW_CONTRAST: &str = r#"
const canvas = document.createElement("canvas");
canvas.width = canvas.height = 1;
const pen = canvas.getContext("2d", { willReadFrequently: true });
const rgb = (color) => {
  pen.clearRect(0, 0, 1, 1); pen.fillStyle = color; pen.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
};
const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3])).concat(1);
const light = (c) => {
  const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
  return .2126 * r + .7152 * g + .0722 * b;
};
const ground = (element) => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    const color = rgb(getComputedStyle(at).backgroundColor);
    layers.push(color);
    if (color[3] === 1) break;
  }
  return layers.reduceRight((below, top) => over(top, below), [255, 255, 255, 1]);
};
const faint = new Set();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode.nodeValue.trim();
  const element = walker.currentNode.parentElement;
  if (!text || !element.checkVisibility() || element.closest(".quiet, script, svg, .skip")) continue;
  const style = getComputedStyle(element);
  const below = ground(element);
  const [one, other] = [light(over(rgb(style.color), below)), light(below)];
  const ratio = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5)) faint.add(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
}
return [...faint];
"#;

/// Elements that have to be reachable by keyboard, in tab order.
const FOCUSABLE: &str = r#"
window.reachable = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
  .filter((it) => it.checkVisibility({ visibilityProperty: true }) && !it.disabled);
window.reached = new Set();
document.activeElement?.blur();
window.scrollTo(0, 0);
return window.reachable.length;
"#;

/// Records the focused element; returns a problem if the focus is not visible.
const NOTE_FOCUS: &str = r#"
const at = document.activeElement;
if (!at || at === document.body) return "";
window.reached.add(at);
const style = getComputedStyle(at);
const box = at.getBoundingClientRect();
const shown = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
const there = box.width > 0 && box.bottom > 0 && box.top < innerHeight;
return shown && there ? "" : `${at.outerHTML.slice(0, 200)} (outline ${style.outlineStyle}, ${Math.round(box.top)} to ${Math.round(box.bottom)})`;
"#;

/// Elements that never had the focus.
const UNFOCUSED: &str = "return window.reachable.filter((it) => it.isConnected && !window.reached.has(it)).map((it) => it.outerHTML.slice(0, 200))";

/// Elements without an accessible name, tables without header cells, and duplicate ids.
const ACCESSIBILITY_PROBLEMS: &str = r#"
const visible = (css) => [...document.querySelectorAll(css)].filter((it) => it.checkVisibility());
const nameless = visible("a, button, input:not([type=hidden]), select, textarea, progress, summary, [role=img], [role=region]")
  .filter((it) => !(it.textContent.trim() || it.ariaLabel || it.getAttribute("aria-labelledby") || it.labels?.length));
const unlabelled = visible("select, textarea, input:not([type=hidden])").filter((it) => !(it.labels?.length || it.ariaLabel));
const headless = visible("table:not(.diff)").filter((it) => !it.querySelector("th[scope]"));
const ids = [...document.querySelectorAll("[id]")].map((it) => it.id);
const twice = ids.filter((id, at) => ids.indexOf(id) !== at);
const lost = [...document.querySelectorAll("[aria-labelledby], [aria-describedby]")]
  .flatMap((it) => `${it.getAttribute("aria-labelledby") ?? ""} ${it.getAttribute("aria-describedby") ?? ""}`.split(" "))
  .filter((id) => id && !document.getElementById(id));
const heads = visible("h1").length === 1 ? [] : ["not one h1"];
return [...nameless, ...unlabelled, ...headless].map((it) => it.outerHTML.slice(0, 200)).concat(twice, lost, heads);
"#;

/// The command that reads the browser's log.
#[derive(Debug)]
struct Log;

impl WebDriverCompatibleCommand for Log {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (
            http::Method::POST,
            Some(json!({ "type": "browser" }).to_string()),
        )
    }
}

/// A browser; it ends with the test.
pub(crate) struct Browser {
    pub(crate) client: Client,
    base: String,
    pictures: PathBuf,
    _driver: Process,
}

impl Browser {
    /// Starts a browser for a console.
    pub(crate) async fn start(folder: &Path, base: &str, pictures: &Path) -> anyhow::Result<Self> {
        let port = free_port()?;
        let driver = Process::start(
            Path::new("chromedriver"),
            [format!("--port={port}")],
            folder,
        )?;
        let capabilities: Capabilities = serde_json::from_value(json!({
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--hide-scrollbars", "--force-prefers-reduced-motion", format!("--user-data-dir={}", folder.join("chromium").display()),
            ] },
        }))?;
        let driver_url = format!("http://127.0.0.1:{port}");
        let started = Instant::now();
        let client = loop {
            let connector = HttpConnector::new();
            let connected =
                Client::with_capabilities_and_connector(&driver_url, &capabilities, connector)
                    .await;
            match connected {
                Ok(client) => break client,
                Err(error) if started.elapsed() > WAIT_TIMEOUT => {
                    return Err(error).context(driver.output());
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        client.set_window_size(WIDTHS[0], HEIGHT).await?;
        std::fs::create_dir_all(pictures)?;
        Ok(Self {
            client,
            base: base.to_owned(),
            pictures: pictures.to_owned(),
            _driver: driver,
        })
    }

    pub(crate) async fn open(&self, path: &str) -> anyhow::Result<()> {
        let url = format!("{}{path}", self.base);
        self.client.goto(&url).await.with_context(|| url)
    }

    /// Waits until there is an element.
    pub(crate) async fn find(&self, css: &str) -> anyhow::Result<Element> {
        let wait = self.client.wait().at_most(WAIT_TIMEOUT);
        let wait = wait.every(Duration::from_millis(50));
        match wait.for_element(Locator::Css(css)).await {
            Ok(found) => Ok(found),
            Err(error) => bail!("{css}: {error}\n{}", self.text().await?),
        }
    }

    /// Presses the button with this label.
    pub(crate) async fn press(&self, label: &str) -> anyhow::Result<()> {
        let path = format!("//button[normalize-space()='{label}' or @aria-label='{label}']");
        let wait = self.client.wait().at_most(WAIT_TIMEOUT);
        let found = wait.for_element(Locator::XPath(&path)).await;
        match found {
            Ok(button) => Ok(button.click().await?),
            Err(error) => bail!("{label}: {error}\n{}", self.text().await?),
        }
    }

    /// The text of the page.
    pub(crate) async fn text(&self) -> anyhow::Result<String> {
        let text = self.run("return document.body.innerText").await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until the page contains a text.
    pub(crate) async fn wait_for_text(&self, part: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            let text = self.text().await?;
            if text.contains(part) {
                return Ok(());
            }
            if started.elapsed() > WAIT_TIMEOUT {
                bail!("timed out waiting for {part:?}; the page has:\n{text}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn run(&self, script: &str) -> anyhow::Result<Value> {
        Ok(self.client.execute(script, Vec::new()).await?)
    }

    /// Presses keys wherever the focus is.
    pub(crate) async fn keys(&self, keys: &str) -> anyhow::Result<()> {
        Ok(self.client.active_element().await?.send_keys(keys).await?)
    }

    /// Waits until a script returns true.
    pub(crate) async fn until(&self, script: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        while self.run(script).await? != true {
            if started.elapsed() > WAIT_TIMEOUT {
                bail!("timed out waiting for {script}\n{}", self.text().await?);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Checks a page in both themes and widths: contrast, overflow, accessible names and keyboard navigation. Saves a
    /// screenshot of each.
    pub(crate) async fn inspect(&self, name: &str, path: &str) -> anyhow::Result<()> {
        for width in WIDTHS {
            self.client.set_window_size(width, HEIGHT).await?;
            self.open(path).await?;
            for theme in ["light", "dark"] {
                let set = format!("document.documentElement.dataset.theme = '{theme}'");
                self.run(&set).await?;
                let what = format!("{name}-{theme}-{width}");
                let faint = self.run(LOW_CONTRAST).await?;
                assert_eq!(faint, json!([]), "{what}");
                let overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
                assert_eq!(self.run(overflow).await?, 0, "{what}");
                assert_eq!(self.run(ACCESSIBILITY_PROBLEMS).await?, json!([]), "{what}");
                self.picture(&what, width).await?;
            }
            self.walk(&format!("{name}-{width}")).await?;
        }
        self.client.set_window_size(WIDTHS[0], HEIGHT).await?;
        Ok(())
    }

    /// A screenshot of the whole page.
    async fn picture(&self, what: &str, width: u32) -> anyhow::Result<()> {
        let height = self
            .run("return document.documentElement.scrollHeight")
            .await?;
        let height = u32::try_from(height.as_u64().unwrap_or_default())?;
        let height = height.clamp(HEIGHT, MAX_PICTURE_HEIGHT) + 150;
        self.client.set_window_size(width, height).await?;
        let picture = self.client.screenshot().await?;
        std::fs::write(self.pictures.join(format!("{what}.png")), picture)?;
        self.client.set_window_size(width, HEIGHT).await?;
        Ok(())
    }

    /// Tabs through a page: every interactive element gets the focus, visibly.
    async fn walk(&self, what: &str) -> anyhow::Result<()> {
        let count = self.run(FOCUSABLE).await?.as_u64().unwrap_or_default();
        // Scroll containers are tab stops as well, and so is the browser itself.
        for _ in 0..count + 10 {
            self.keys(&Key::Tab).await?;
            assert_eq!(
                self.run(NOTE_FOCUS).await?,
                "",
                "{what}: the focus is not seen"
            );
        }
        assert_eq!(self.run(UNFOCUSED).await?, json!([]), "{what}");
        Ok(())
    }

    /// Entries of the browser's log: errors of scripts, of the network, and of the security policy.
    pub(crate) async fn complaints(&self) -> anyhow::Result<Vec<Value>> {
        let log = self.client.issue_cmd(Log).await?;
        let entries = log.as_array().cloned().unwrap_or_default();
        Ok(entries
            .into_iter()
            .filter(|it| it["level"] != "INFO")
            .collect())
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        Ok(self.client.close().await?)
    }
}

/// The sign-in link in the output of `up`, as base URL and path.
fn link(output: &str) -> (String, String) {
    let line = output
        .lines()
        .find(|line| line.contains("/sign-in/link?code="));
    let line = line.unwrap().trim();
    let at = line.find("/sign-in").unwrap();
    (line[..at].to_owned(), line[at..].to_owned())
}

/// A cluster, and a browser that is signed in to its console.
pub(crate) async fn start(folder: &Path) -> anyhow::Result<(Server, Browser)> {
    let server = Server::up(
        folder,
        &[
            "--memory",
            "--speed",
            "100",
            "--console",
            "127.0.0.1:0",
            "--kubeconfig",
            "kubeconfig",
            // Registries of tests.
            "--allow-address",
            "127.0.0.0/8",
        ],
    );
    let (base, link) = link(&server.process.output());
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console");
    let browser = Browser::start(folder, &base, &pictures).await?;
    browser.open(&link).await?;
    // The button has the focus.
    browser.keys(&Key::Enter).await?;
    browser.find("nav a[aria-current]").await?;
    Ok((server, browser))
}
