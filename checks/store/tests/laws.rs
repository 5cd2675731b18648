//! A group as an object store passes that crate's own tests, on real files.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::PathBuf;
use std::sync::Arc;

use cellar_diskgroup::{
    CreateGroup, FoundDisk, Group, GroupStore, MountOptions, NewDisk, Redundancy, create,
};
use cellar_io::real::{OpenOptions, Runtime, RuntimeOptions, open_disk};
use cellar_io::{Device, EnvExt};
use cellar_wait::{Kind, Waits};
use futures_util::StreamExt;
use object_store::{Error, ObjectStore, integration};

/// Runs a test over a fresh group on real files, then checks the group.
fn on_real_files<F: Future<Output = ()>>(test: impl FnOnce(GroupStore) -> F) {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let env = runtime.env();
    let open = |i: usize| -> (Arc<dyn Device>, PathBuf) {
        let path = dir.path().join(format!("disk{i}"));
        if !path.exists() {
            std::fs::File::create(&path).unwrap().set_len(256 << 20).unwrap();
        }
        let disk = open_disk(runtime.real_env(), &path, &OpenOptions::default()).unwrap();
        (disk, path)
    };
    runtime.block_on(async {
        let disks: Vec<_> = (0..3).map(open).collect();
        let spec = CreateGroup {
            name: "DATA".to_owned(),
            redundancy: Redundancy::Normal,
            au_size: 1 << 20,
            sector_size: Some(512),
            attributes: Default::default(),
            holds_catalog: false,
            disks: disks
                .iter()
                .map(|(device, path)| NewDisk {
                    device: Arc::clone(device),
                    path: path.display().to_string(),
                    name: None,
                    failgroup: None,
                    size: None,
                    force: false,
                })
                .collect(),
        };
        create(&env, spec).await.unwrap();
        let found = disks.iter().map(|(device, path)| FoundDisk {
            device: Arc::clone(device),
            path: path.display().to_string(),
        });
        let session = Waits::new().session("group DATA", Kind::Background);
        let options = MountOptions::default();
        let group = Group::mount(&env, session, "DATA", found.collect(), options).await.unwrap();
        let store = GroupStore::new(group.clone());
        test(store.clone()).await;
        // Every object deleted: no file is left, named or not.
        let all = store.list(None).map(|m| Ok(m?.location)).boxed();
        let deleted: Vec<_> = store.delete_stream(all).collect().await;
        assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
        for _ in 0..100 {
            if group.files().is_empty() {
                break;
            }
            env.sleep(std::time::Duration::from_millis(20)).await;
        }
        let left = group.files();
        assert!(left.is_empty(), "no upload and no replaced object keeps its room: {left:?}");
        group.check().unwrap();
        group.dismount().await.unwrap();
    });
}

#[test]
fn objects_can_be_put_got_listed_and_deleted() {
    on_real_files(|s| async move { integration::put_get_delete_list(&s).await });
}

#[test]
fn conditions_on_reads_are_kept() {
    on_real_files(|s| async move { integration::get_opts(&s).await });
}

#[test]
fn conditions_on_writes_are_kept_under_a_race() {
    on_real_files(|s| async move { integration::put_opts(&s, true).await });
}

#[test]
fn listing_knows_directories() {
    on_real_files(|s| async move {
        integration::list_uses_directories_correctly(&s).await;
        integration::list_with_delimiter(&s).await;
        integration::list_with_offset_exclusivity(&s).await;
    });
}

#[test]
fn objects_can_be_copied_and_renamed() {
    on_real_files(|s| async move {
        integration::rename_and_copy(&s).await;
        integration::copy_if_not_exists(&s).await;
        integration::copy_rename_nonexistent_object(&s).await;
    });
}

#[test]
fn uploads_in_parts_appear_whole() {
    on_real_files(|s| async move { integration::stream_get(&s).await });
}

#[test]
fn parts_may_come_in_any_order_and_the_last_upload_wins() {
    on_real_files(|s| async move {
        integration::multipart_out_of_order(&s).await;
        integration::multipart_race_condition(&s, true).await;
    });
}

#[test]
fn a_missing_object_is_said_to_be_missing() {
    on_real_files(|s| async move {
        let error = integration::get_nonexistent_object(&s, None).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
    });
}
