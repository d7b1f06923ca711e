//! Recordings of what a program writes on an API server.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, Patch, PostParams};
use serde_json::{Value, json};
use testkit::recording::{LeftOut, Recorder, Subject, Trace};
use testkit::{TestCluster, by};

/// The object that the story creates.
/// Changes a trace.
type Change<'a> = &'a dyn Fn(&mut Value);

const STORY: &str = "ConfigMap default/story";
/// The object that the program creates.
const PROGRAM: &str = "ConfigMap default/program";

struct Player {
    maps: Api<ConfigMap>,
    recorder: Recorder,
}

impl Player {
    async fn start() -> anyhow::Result<(TestCluster, Self)> {
        let cluster = TestCluster::start().await?;
        let kind = ApiResource::erase::<ConfigMap>(&());
        let subject = Subject::new([kind])
            .played_by(&["story"])
            .following("ConfigMap", "/data/phase")
            .in_order();
        let recorder = Recorder::start(cluster.client(), subject);
        let maps = Api::default_namespaced(cluster.client());
        Ok((cluster, Self { maps, recorder }))
    }

    async fn write(&self, manager: &str, name: &str, fields: Value) -> anyhow::Result<()> {
        if self.maps.get_opt(name).await?.is_none() {
            // API servers do not track the fields of an object that is created without any.
            let metadata = json!({ "name": name, "labels": { "made": "1" } });
            let map = serde_json::from_value(json!({ "metadata": metadata }))?;
            let params = PostParams {
                field_manager: Some("story".to_owned()),
                ..PostParams::default()
            };
            self.maps.create(&params, &map).await?;
        }
        let patch = Patch::Merge(fields);
        self.maps.patch(name, &by(manager), &patch).await?;
        Ok(())
    }

    /// The story, with what the program writes in it.
    async fn play(self, result: &str) -> anyhow::Result<Trace> {
        let labels = json!({ "metadata": { "labels": { "wanted": "1" } } });
        self.write("story", "story", labels).await?;
        for phase in ["Pending", "Running", "Running", "Done"] {
            let data =
                json!({ "data": { "phase": phase, "at": "2026-01-01T00:00:00Z", "tmp": "1" } });
            self.write("program", "story", data).await?;
        }
        let data = json!({ "data": { "tmp": null, "result": result } });
        self.write("program", "story", data).await?;
        let data = json!({ "data": { "a": "1" } });
        self.write("program", "program", data).await?;
        self.recorder.step("first").await?;
        // Nothing but a time changes.
        let data = json!({ "data": { "at": "2026-02-02T00:00:00Z" } });
        self.write("program", "story", data).await?;
        self.maps
            .delete("program", &DeleteParams::default())
            .await?;
        self.recorder.step("second").await?;
        Ok(self.recorder.finish())
    }
}

#[tokio::test]
async fn fields_of_the_program_are_recorded_by_step() -> anyhow::Result<()> {
    let (_cluster, player) = Player::start().await?;
    let trace = player.play("good").await?;
    assert_eq!(
        json!(trace),
        json!({
            "steps": [
                {
                    "step": "first",
                    "order": [STORY, PROGRAM],
                    "objects": {
                        PROGRAM: { "data": { "a": "1" } },
                        STORY: { "data": { "at": "<time>", "phase": "Done", "result": "good" } },
                    },
                    "sequences": {
                        "ConfigMap default/story /data/phase": ["Pending", "Running", "Done"],
                    },
                },
                { "step": "second", "deleted": [PROGRAM] },
            ],
            "passing": { STORY: ["data.tmp"] },
        })
    );
    Ok(())
}

#[tokio::test]
async fn stand_in_is_held_to_the_recording() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace.json");
    let (_cluster, player) = Player::start().await?;
    let mut trace = player.play("good").await?;
    trace.recorded_from = "program@v1".to_owned();
    std::fs::write(&path, json!(trace).to_string())?;
    trace.clone().assert_recorded(&path, "program@v1")?;
    trace.assert_imitates(&path, &[])?;

    let result = LeftOut {
        object: STORY,
        field: "data.result",
    };
    let unneeded = trace.assert_imitates(&path, &[result]);
    assert!(unneeded.is_err(), "nothing is left out");
    assert!(trace.clone().assert_recorded(&path, "program@v2").is_err());

    let changed = |change: &dyn Fn(&mut Value)| -> anyhow::Result<Trace> {
        let mut changed = json!(trace);
        change(&mut changed);
        Ok(serde_json::from_value(changed)?)
    };
    let other = changed(&|it| it["steps"][0]["objects"][STORY]["data"]["result"] = json!("bad"))?;
    let error = other.assert_imitates(&path, &[]).unwrap_err().to_string();
    assert!(
        error.contains(r#"data.result: "good" recorded, "bad" written"#),
        "{error}"
    );
    other.assert_imitates(&path, &[result])?;
    let whole = LeftOut {
        object: "ConfigMap default/st*",
        field: "",
    };
    other.assert_imitates(&path, &[whole])?;
    assert!(other.assert_recorded(&path, "program@v1").is_err());

    let changes: [(&str, Change<'_>); 6] = [
        ("data.more", &|it| {
            it["steps"][0]["objects"][STORY]["data"]["more"] = json!(1);
        }),
        ("recorded, not written", &|it| {
            it["steps"][0]["objects"]
                .as_object_mut()
                .unwrap()
                .remove(STORY);
        }),
        ("written, not recorded", &|it| {
            it["steps"][1]["deleted"] = json!([]);
        }),
        ("order", &|it| {
            it["steps"][0]["order"] = json!([PROGRAM, STORY]);
        }),
        ("/data/phase", &|it| {
            it["steps"][0]["sequences"]["ConfigMap default/story /data/phase"] = json!(["Done"]);
        }),
        ("written and removed", &|it| {
            it["passing"][STORY] = json!(["data.other"]);
        }),
    ];
    for (what, change) in changes {
        let error = changed(change)?.assert_imitates(&path, &[]).unwrap_err();
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
    Ok(())
}
