//! Attributes of new files, by their type or by the template they name.

use cellar_diskgroup::state::{FileType, Striping};
use cellar_diskgroup::{
    FileSpec, Group, Protection, Redundancy, Template, TemplateChange, TemplateWords,
};

use cellar_sim::rig::{Rig, Shape};

fn template(group: &Group, name: &str) -> Option<Template> {
    group.templates().into_iter().find(|t| t.name == name)
}

#[test]
fn new_files_are_what_their_template_says_and_old_ones_stay() {
    let rig = Rig::new(31, &Shape::default());
    rig.run(async {
        rig.create(&Shape::default()).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        assert_eq!(group.templates().len(), 7, "one for each type");
        let before = group.create_file(&FileSpec::new(FileType::Datafile)).await.expect("made");
        before.set_size(1 << 20).await.expect("room");
        let words = TemplateWords {
            protection: Some(Protection::High),
            striping: Some(Striping::Fine),
            unit: Some(8192),
            ..Default::default()
        };
        group
            .set_templates(TemplateChange::Modify, &[("datafile".into(), words.clone())])
            .await
            .expect("changed");
        let alone = TemplateWords {
            checksums: Some(false),
            failgroup: Some("DATA_0002".into()),
            ..Default::default()
        };
        group
            .set_templates(TemplateChange::Add, &[("scratch".into(), alone.clone())])
            .await
            .expect("made");
        group.publish(&before, "before", false).await.expect("named");
        drop(before);
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("mounted");
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.expect("made");
        let a = file.attributes();
        assert_eq!((a.copies, a.striping, a.unit), (3, Striping::Fine, 8192));
        let old = group.open("before").expect("there");
        assert_eq!((old.attributes().copies, old.attributes().unit), (2, 4096));
        let spec =
            FileSpec { template: Some("Scratch".into()), ..FileSpec::new(FileType::Datafile) };
        let file = group.create_file(&spec).await.expect("made");
        file.set_size(4 << 20).await.expect("room");
        let a = file.attributes();
        assert_eq!((a.copies, a.checksums, a.placement.as_deref()), (1, false, Some("DATA_0002")));
        // Who says something himself is believed.
        let spec = FileSpec { copies: Some(2), ..spec };
        let file = group.create_file(&spec).await.expect("made");
        assert_eq!((file.attributes().copies, file.attributes().placement.clone()), (2, None));
        let shown = template(&group, "SCRATCH").expect("there");
        assert_eq!((shown.protection, shown.system), (Protection::Unprotected, false));
        let any = TemplateWords { failgroup: Some(String::new()), ..Default::default() };
        group
            .set_templates(TemplateChange::Modify, &[("scratch".into(), any.clone())])
            .await
            .expect("changed");
        let shown = template(&group, "SCRATCH").expect("there");
        assert_eq!((shown.protection, shown.checksums), (Protection::Mirror, false));
        group.drop_templates(&["scratch".into()]).await.expect("dropped");
        assert_eq!(template(&group, "SCRATCH"), None);
        group
            .set_templates(TemplateChange::Add, &[("scratch".into(), any.clone())])
            .await
            .expect("made again");
        assert!(template(&group, "SCRATCH").expect("there").checksums, "nothing of the old one");
        assert!(!group.attributes().keys().any(|name| name.contains("template")));
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn what_a_group_cannot_have_is_refused() {
    let refused = |redundancy, words: TemplateWords| {
        let shape = Shape { redundancy, ..Shape::default() };
        let rig = Rig::new(32, &shape);
        rig.run(async {
            rig.create(&shape).await.expect("created");
            let group = rig.mount().await.expect("mounted");
            let changed = group
                .set_templates(TemplateChange::Modify, &[("datafile".into(), words.clone())])
                .await;
            changed.err().map(|error| error.number())
        })
    };
    let copies = |protection| TemplateWords { protection: Some(protection), ..Default::default() };
    assert_eq!(refused(Redundancy::External, copies(Protection::Mirror)), Some(Some(15238)));
    assert_eq!(refused(Redundancy::High, copies(Protection::Unprotected)), Some(Some(15238)));
    assert_eq!(refused(Redundancy::Normal, copies(Protection::High)), Some(None));
    let unit = TemplateWords { unit: Some(5000), ..Default::default() };
    assert_eq!(refused(Redundancy::Normal, unit), Some(Some(15238)));
    let nobody = TemplateWords { failgroup: Some("NOBODY".into()), ..Default::default() };
    assert_eq!(refused(Redundancy::Normal, nobody), Some(Some(15238)));
    let rig = Rig::new(33, &Shape::default());
    rig.run(async {
        rig.create(&Shape::default()).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        let none = TemplateWords::default();
        let number = |result: Result<(), cellar_diskgroup::Error>| result.err().map(|e| e.number());
        let named = |name: &str| [(name.to_owned(), none.clone())];
        let add = async |name: &str| group.set_templates(TemplateChange::Add, &named(name)).await;
        assert_eq!(number(add("DATAFILE").await), Some(15007));
        assert_eq!(number(add("a b").await), Some(15124));
        assert_eq!(number(add("a").await), None);
        assert_eq!(number(add("A").await), Some(15007));
        let change =
            group.set_templates(TemplateChange::Modify, &[("b".into(), none.clone())]).await;
        assert_eq!(number(change), Some(15006));
        assert_eq!(number(group.drop_templates(&["b".into()]).await), Some(15006));
        assert_eq!(number(group.drop_templates(&["tempfile".into()]).await), Some(15008));
        // All of a list, or none.
        assert_eq!(number(group.drop_templates(&["a".into(), "b".into()]).await), Some(15006));
        assert!(template(&group, "A").is_some(), "it stays");
        let two = [named("c"), named("a")].concat();
        assert_eq!(number(group.set_templates(TemplateChange::Add, &two).await), Some(15007));
        assert!(template(&group, "C").is_none(), "it was not made");
        let spec = FileSpec { template: Some("b".into()), ..FileSpec::new(FileType::Datafile) };
        assert_eq!(group.create_file(&spec).await.err().map(|e| e.number()), Some(15006));
        group.dismount().await.expect("dismounted");
    });
}
