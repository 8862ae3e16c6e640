//! Paths by inode id and the raw view: every kind of operation takes them.

use trellis_proto::exception::Kind as Class;

use crate::actor::{Actor, names};
use crate::support::Namenode;

pub async fn operations_on_paths_by_id() {
    let nn = Namenode::fresh().await;
    let root = Actor::superuser(&nn);
    root.mkdirs("/t/d", 0o755, true).await.unwrap();
    let id = root.status("/t/d").await.unwrap().unwrap().inode.id;
    let at = |below: &str| format!("/.reserved/.inodes/{id}{below}");
    assert_eq!(root.mkdirs(&at("/a/b/c"), 0o755, true).await, Ok("true".into()));
    assert_eq!(root.mkdirs(&at(""), 0o755, true).await, Ok("true".into()));
    let orphan = root.mkdirs(&at("/no/x"), 0o755, false).await.unwrap_err();
    assert_eq!(
        (orphan.kind, orphan.message.as_str()),
        (Class::FileNotFound, "Parent directory doesn't exist: /t/d/no")
    );
    root.create(&at("/f/g"), "client", |_| {}).await.unwrap();
    root.complete(&at("/f/g"), "client").await.unwrap();
    assert_eq!(root.rename(&at("/f/g"), &at("/a/g")).await, Ok("true".into()));
    root.rename2(&at("/a/b"), &at("/b"), false, false).await.unwrap();
    root.set_permission(&at("/a/g"), 0o600).await.unwrap();
    assert_eq!(root.status("/t/d/a/g").await.unwrap().unwrap().inode.mode, 0o600);
    assert_eq!(names(&root.listing(&at("/b"), "").await.unwrap().unwrap().entries), "[c]");
    assert_eq!(root.content_summary(&at("")).await.unwrap(), "dirs=5 files=1 length=0 space=0");
    assert_eq!(root.delete(&at("/a"), true).await, Ok("true".into()));
    assert_eq!(root.delete(&at(""), true).await, Ok("true".into()));
    // The id is gone with its tree, though its row may still hang under the hidden parent.
    assert_eq!(root.status(&at("")).await.unwrap_err().kind, Class::FileNotFound);
    assert_eq!(root.mkdirs(&at("/a"), 0o755, true).await.unwrap_err().kind, Class::FileNotFound);
    assert_eq!(
        root.status("/.reserved/.inodes/x").await.unwrap_err().message,
        "Invalid inode path: /.reserved/.inodes/x"
    );
}

pub async fn the_raw_view() {
    let nn = Namenode::fresh().await;
    let (root, bob) = (Actor::superuser(&nn), Actor::new(&nn, "bob"));
    root.give_dir("/t", 0o777, "bob", "bin").await;
    assert_eq!(root.mkdirs("/.reserved/raw/t/a/b", 0o755, true).await, Ok("true".into()));
    assert_eq!(bob.status("/.reserved/raw/t/a").await.unwrap().unwrap().children, 1);
    assert_eq!(bob.mkdirs("/.reserved/raw/t/x", 0o755, true).await.unwrap_err().kind, Class::AccessControl);
    assert_eq!(bob.delete("/.reserved/raw/t/a", true).await.unwrap_err().kind, Class::AccessControl);
    assert_eq!(root.delete("/.reserved/raw/t/a", true).await, Ok("true".into()));
    assert_eq!(root.status("/.reserved/raw/.reserved").await, Ok(None));
    assert_eq!(root.delete("/.reserved/raw", true).await, Ok("false".into()));
}
