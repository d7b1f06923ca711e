//! The Containerfile: the images have what the manifests and `oc adm must-gather` run in them.

use std::collections::BTreeMap;

const CONTAINERFILE: &str = include_str!("../../../../../Containerfile");

/// A stage: its base, and its instructions.
#[derive(Debug, Default)]
struct Stage {
    base: String,
    instructions: Vec<(String, String)>,
}

impl Stage {
    fn all(&self, instruction: &str) -> Vec<&str> {
        let all = self.instructions.iter();
        let all = all.filter(|(name, _)| name == instruction);
        all.map(|(_, rest)| rest.as_str()).collect()
    }
}

/// The defaults of the arguments before the first stage, and the stages in their order.
fn parse() -> (BTreeMap<String, String>, Vec<(String, Stage)>) {
    let joined = CONTAINERFILE.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut arguments, mut stages) = (BTreeMap::new(), Vec::new());
    for line in lines {
        let (name, rest) = line.split_once(' ').unwrap();
        let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        match (name, stages.last_mut()) {
            ("ARG", None) => {
                let (key, value) = rest.split_once('=').unwrap();
                arguments.insert(format!("${{{key}}}"), value.to_owned());
            }
            ("FROM", _) => {
                let (base, name) = rest.split_once(" AS ").unwrap();
                let stage = Stage {
                    base: base.to_owned(),
                    ..Stage::default()
                };
                stages.push((name.to_owned(), stage));
            }
            (name, Some((_, stage))) => stage.instructions.push((name.to_owned(), rest)),
            (name, None) => panic!("{name} before the first stage"),
        }
    }
    (arguments, stages)
}

#[test]
fn product_is_the_default_target_and_has_no_shell() {
    let (arguments, stages) = parse();
    let names: Vec<&str> = stages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["build", "must-gather", "product"]);
    assert!(arguments[&stages[2].1.base].contains("distroless"));
}

#[test]
fn must_gather_has_a_base_with_bash_and_tar() {
    let (arguments, stages) = parse();
    // Bash, coreutils and tar are essential packages of Debian.
    assert!(arguments[&stages[1].1.base].contains("debian"));
}

#[test]
fn both_images_have_the_program_and_its_link_for_must_gather() {
    let (_, stages) = parse();
    let made = stages[0].1.all("RUN").join("\n");
    assert!(made.contains("cp target/release/medley /tree/usr/local/bin/medley"));
    assert!(made.contains("ln -s /usr/local/bin/medley /tree/usr/bin/gather"));
    for (name, stage) in &stages[1..] {
        assert_eq!(stage.all("COPY"), ["--from=build /tree/ /"], "{name}");
        assert_eq!(
            stage.all("ENTRYPOINT"),
            [r#"["/usr/local/bin/medley"]"#],
            "{name}"
        );
        let user = stage.all("USER").join("");
        let user = user.split(':').next().unwrap();
        assert!(user.parse::<u32>().is_ok_and(|it| it > 0), "{name}: {user}");
        // A base without a shell could not run a command.
        assert_eq!(stage.all("RUN"), Vec::<&str>::new(), "{name}");
    }
}
