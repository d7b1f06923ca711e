//! The body of a notification in the format of its receiver.

use api::advisor::{GROUP, PLURAL, Phase, VERSION};
use api::approval::NotificationFormat;
use jiff::{SignedDuration, Timestamp};
use machinery::time::format_time;
use serde_json::{Value, json};

use super::{Delivery, Notification};

/// How long Alertmanager keeps an alert if its end is never reported: the operator may be gone by then.
const ALERT_LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A body and its media type.
#[derive(Debug, Clone, PartialEq)]
pub struct Payload {
    /// `Content-Type`.
    pub media_type: &'static str,
    /// The body.
    pub body: Value,
}

/// The payload of a delivery.
pub fn payload(delivery: &Delivery) -> Payload {
    let notification = &delivery.notification;
    let (media_type, body) = match delivery.receiver.format {
        NotificationFormat::CloudEvents => {
            ("application/cloudevents+json", cloud_event(notification))
        }
        NotificationFormat::Slack => ("application/json", slack(notification)),
        NotificationFormat::Teams => ("application/json", teams(notification)),
        NotificationFormat::Alertmanager => {
            ("application/json", alerts(notification, delivery.ended))
        }
    };
    Payload { media_type, body }
}

/// One line that says what happened.
fn title(notification: &Notification) -> String {
    let config = &notification.config;
    let what = match notification.phase {
        Phase::ReviewRequired => "a plan waits for approval",
        Phase::Drifted => "another manager changed the applied state",
        Phase::Failed => "the plan could not be applied",
        Phase::PrerequisiteFailed => "no plan can be generated",
        Phase::CompletedWithErrors => "some items failed",
        Phase::CompletedWithUpgrade => "this version plans differently",
        Phase::Completed => "everything is in force",
        Phase::InProgress => "a plan is being applied",
        Phase::Pending | Phase::Drafting => "a plan is being generated",
        Phase::Ignored => "the configuration is not managed any more",
    };
    format!("{config}: {what}")
}

/// Names and values, in order.
fn facts(notification: &Notification) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Phase", notification.phase.to_string())];
    if let Some(impact) = notification.impact {
        facts.push(("Impact", impact.to_string()));
    }
    if let Some(digest) = &notification.digest {
        facts.push(("Plan", digest.clone()));
    }
    facts.push(("Command", notification.command()));
    facts
}

/// The items, and how many others there are.
fn items(notification: &Notification) -> Vec<String> {
    let mut lines = notification.items.clone();
    if notification.more_items > 0 {
        lines.push(format!("and {} more", notification.more_items));
    }
    lines
}

/// A CloudEvent 1.0 in structured mode.
fn cloud_event(notification: &Notification) -> Value {
    let Notification {
        id, config, phase, ..
    } = notification;
    json!({
        "specversion": "1.0",
        "id": id,
        "source": format!("/apis/{GROUP}/{VERSION}/{PLURAL}/{config}"),
        "type": format!("dev.medley.governance.{phase}"),
        "subject": config,
        "time": format_time(notification.since),
        "datacontenttype": "application/json",
        "data": {
            "config": config,
            "phase": phase,
            "message": notification.message,
            "planDigest": notification.digest,
            "impact": notification.impact,
            "items": items(notification),
            "link": notification.link,
            "command": notification.command(),
        },
    })
}

/// A message for an incoming webhook of Slack.
fn slack(notification: &Notification) -> Value {
    // Slack's own escaping: these three characters, and no others.
    let escape = |text: &str| {
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    };
    let section =
        |text: String| json!({ "type": "section", "text": { "type": "mrkdwn", "text": text } });
    let heading = escape(&title(notification));
    let mut blocks = vec![section(format!(
        "*{heading}*\n{}",
        escape(&notification.message)
    ))];
    let lines: Vec<_> = items(notification)
        .iter()
        .map(|line| format!("• {}", escape(line)))
        .collect();
    if !lines.is_empty() {
        blocks.push(section(lines.join("\n")));
    }
    let fields = facts(notification).into_iter().map(|(name, value)| {
        json!({ "type": "mrkdwn", "text": format!("*{name}*\n`{}`", escape(&value)) })
    });
    blocks.push(json!({ "type": "section", "fields": fields.collect::<Vec<_>>() }));
    if let Some(link) = &notification.link {
        let text = json!({ "type": "plain_text", "text": call_to_action(notification) });
        let button = json!({ "type": "button", "text": text, "url": link });
        blocks.push(json!({ "type": "actions", "elements": [button] }));
    }
    // `text` is what notifications on a phone show.
    json!({ "text": heading, "blocks": blocks })
}

fn call_to_action(notification: &Notification) -> &'static str {
    if notification.asks_for_approval() {
        "Review the plan"
    } else {
        "Open the configuration"
    }
}

/// A message for a Teams workflow ("When a Teams webhook request is received").
fn teams(notification: &Notification) -> Value {
    let text = |text: &str, heading: bool| {
        let (weight, size) = if heading {
            ("Bolder", "Medium")
        } else {
            ("Default", "Default")
        };
        json!({ "type": "TextBlock", "text": text, "wrap": true, "weight": weight, "size": size })
    };
    let mut body = vec![
        text(&title(notification), true),
        text(&notification.message, false),
    ];
    let lines = items(notification);
    if !lines.is_empty() {
        body.push(text(&format!("- {}", lines.join("\n- ")), false));
    }
    let facts = facts(notification).into_iter();
    let facts: Vec<_> = facts
        .map(|(name, value)| json!({ "title": name, "value": value }))
        .collect();
    body.push(json!({ "type": "FactSet", "facts": facts }));
    let actions = notification.link.iter().map(|link| {
        json!({ "type": "Action.OpenUrl", "title": call_to_action(notification), "url": link })
    });
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": actions.collect::<Vec<_>>(),
    });
    let attachment = json!({
        "contentType": "application/vnd.microsoft.card.adaptive", "content": card,
    });
    json!({ "type": "message", "attachments": [attachment] })
}

/// The alerts of `POST /api/v2/alerts`. The labels identify the alert, so they have nothing that changes while it holds.
fn alerts(notification: &Notification, ended: Option<Timestamp>) -> Value {
    let Notification {
        config,
        phase,
        since,
        ..
    } = notification;
    let severity = match phase {
        Phase::Failed | Phase::PrerequisiteFailed | Phase::CompletedWithErrors | Phase::Drifted => {
            "warning"
        }
        _ => "info",
    };
    let ends = ended.unwrap_or_else(|| since.saturating_add(ALERT_LIFETIME).unwrap_or(*since));
    let mut alert = json!({
        "labels": {
            "alertname": format!("MedleyConfiguration{phase}"),
            "config": config,
            "severity": severity,
        },
        "annotations": {
            "summary": title(notification),
            "description": notification.message,
            "command": notification.command(),
        },
        "startsAt": format_time(*since),
        "endsAt": format_time(ends),
    });
    if let Some(link) = &notification.link {
        alert["generatorURL"] = json!(link);
    }
    json!([alert])
}
