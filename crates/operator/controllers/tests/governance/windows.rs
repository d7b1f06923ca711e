//! Disruptive items wait for a maintenance window; others do not.

use api::advisor::{ItemState, Phase};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::stage::{LOAD_AWARE, Stage, item, states};

#[tokio::test(flavor = "multi_thread")]
async fn only_disruptive_items_wait_for_window() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let later = (now.hour() + 12) % 24;
    let closed =
        json!([{ "schedule": format!("0 {later} * * *"), "duration": "1h", "timeZone": "UTC" }]);
    stage
        .edit(
            LOAD_AWARE,
            json!({
                "action": "Apply",
                "maintenanceWindows": closed,
                "options": { "loadAware": { "enablePSIMetrics": false } },
            }),
        )
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert_eq!(states(&status), [ItemState::Completed]);
    assert_eq!(status.next_window, None);

    stage.edit(LOAD_AWARE, json!({ "options": null })).await?;
    let status = stage
        .until("the window is waited for", LOAD_AWARE, |status| {
            status.phase == Some(Phase::InProgress) && status.next_window.is_some()
        })
        .await?;
    let psi = item(&status, "enable-psi-metrics");
    assert_eq!(psi.state, ItemState::Pending);
    let opens = status.next_window.clone().map(|opens| opens.0);
    let expected = opens
        .map(|opens| format!("Waiting for a maintenance window (the next one opens at {opens})"));
    assert_eq!(psi.message, expected);
    let opens = opens.unwrap_or_default().to_zoned(TimeZone::UTC);
    assert_eq!((opens.hour(), opens.minute()), (later, 0));
    assert!(!stage.has_machine_config("99-worker-psi-karg").await?);

    let open = json!([{ "schedule": "* * * * *", "duration": "1h" }]);
    stage
        .edit(LOAD_AWARE, json!({ "maintenanceWindows": open }))
        .await?;
    let status = stage
        .until("the item is carried out", LOAD_AWARE, |status| {
            status.items.first().map(|item| item.state) == Some(ItemState::InProgress)
        })
        .await?;
    assert_eq!(status.next_window, None);
    stage.rolled_out("99-worker-psi-karg", 10, 10).await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    Ok(())
}
