//! One process has DIR; others reach it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cellar_instance::Error;
use cellar_instance::directory::{Client, Directory, Entered, Handler, Server, TIMEOUT};
use cellar_instance::wire::{Frame, Hello, Request};

use crate::env::{block_on, pause, threads};

/// A directory whose path alone is longer than a socket path may be.
fn far_away() -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("x".repeat(200));
    (parent, path)
}

/// Answers `echo` with the words and the body, `fail` with exit 3, `panic` not at all.
fn echo() -> Handler {
    Arc::new(|request, mut responder| {
        Box::pin(async move {
            match request.words[0].as_str() {
                "echo" => {
                    let words = request.words[1..].join(" ");
                    responder.stdout(words.as_bytes()).await.unwrap();
                    responder.stderr(&request.body).await.unwrap();
                    0
                }
                "panic" => panic!("asked to"),
                _ => 3,
            }
        })
    })
}

fn serve(directory: &Directory) -> Server {
    let lock = directory.try_lock().unwrap().expect("nobody has it");
    lock.serve(threads(), "0.1.0", echo()).unwrap()
}

fn call(client: &mut Client, words: &[&str], body: &[u8]) -> Result<(Vec<u8>, Vec<u8>, u8), Error> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    let code = client.call(Request { words, body: body.to_vec() }, &mut |frame| {
        match frame {
            Frame::Stdout(bytes) => out.extend(bytes),
            Frame::Stderr(bytes) => err.extend(bytes),
            other => panic!("{other:?}"),
        }
        Ok(())
    })?;
    Ok((out, err, code))
}

#[test]
fn a_new_directory_is_its_owners_and_an_existing_one_is_refused() {
    let (_parent, path) = far_away();
    Directory::create(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let error = Directory::create(&path).unwrap_err();
    assert_eq!(error.number(), 70102);
    assert!(error.next_step().is_some());
}

#[test]
fn what_is_no_cellar_directory_is_told() {
    let (parent, path) = far_away();
    assert_eq!(Directory::open(&path).unwrap_err().number(), 70103);
    let error = Directory::open(parent.path()).unwrap_err();
    assert!(error.to_string().contains("it has no cellar.toml"), "{error}");
    assert!(error.to_string().contains("Next: make one: cellar init"), "{error}");
    std::fs::write(&path, "").unwrap();
    assert!(Directory::open(&path).unwrap_err().to_string().contains("no directory"));
    let error = Directory::create(&path.join("deeper")).unwrap_err();
    assert_eq!(error.number(), 70110);
}

#[test]
fn one_at_a_time_has_the_lock() {
    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    let lock = directory.try_lock().unwrap().expect("nobody has it");
    assert!(Directory::open(&path).unwrap().try_lock().unwrap().is_none());
    drop(lock);
    assert!(directory.try_lock().unwrap().is_some());
}

#[test]
fn whoever_comes_second_talks_to_the_first() {
    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    let server = serve(&directory);
    let mode = std::fs::metadata(path.join("cellar.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let other = Directory::open(&path).unwrap();
    let Entered::Client(mut client) = block_on(other.enter(&threads(), TIMEOUT)).unwrap() else {
        panic!("the lock is taken");
    };
    assert_eq!(client.hello().pid, std::process::id());
    let long = "a".repeat(3 << 20);
    let (out, err, code) = call(&mut client, &["echo", &long, "b"], b"\0body").unwrap();
    assert_eq!((out.len(), &err[..], code), (long.len() + 2, &b"\0body"[..], 0));
    assert_eq!(call(&mut client, &["fail"], b"").unwrap().2, 3);
    assert_eq!(server.clients(), 1);
}

#[test]
fn a_request_that_panics_fails_alone() {
    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    let _server = serve(&directory);
    let mut client = directory.connect().unwrap().expect("it answers");
    let (_, err, code) = call(&mut client, &["panic"], b"").unwrap();
    assert_eq!(code, 1);
    assert!(String::from_utf8(err).unwrap().contains("CELLAR-00600"));
    assert_eq!(call(&mut client, &["echo", "on"], b"").unwrap().0, b"on");
}

#[test]
fn the_holder_stays_until_its_clients_are_done() {
    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    let server = serve(&directory);
    let mut client = directory.connect().unwrap().expect("it answers");
    call(&mut client, &["echo"], b"").unwrap();
    let leaving = thread::spawn(move || {
        block_on(server.drain());
        assert_eq!(server.clients(), 0);
    });
    pause(Duration::from_millis(50));
    assert!(!leaving.is_finished());
    assert_eq!(call(&mut client, &["echo", "still"], b"").unwrap().0, b"still");
    drop(client);
    leaving.join().expect("it leaves");
    assert!(!path.join("cellar.sock").exists());
    assert!(directory.connect().unwrap().is_none());
    assert!(directory.try_lock().unwrap().is_some());
}

#[test]
fn a_lock_without_an_answer_is_waited_for_and_then_told() {
    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    let lock = directory.try_lock().unwrap().expect("nobody has it");
    let env = threads();
    let error = block_on(directory.enter(&env, Duration::from_millis(120))).unwrap_err();
    assert_eq!((error.number(), error.sqlstate()), (70101, "55006"));
    let who = format!("process {}", std::process::id());
    assert!(error.to_string().contains(&who), "{error}");
    let waiting = thread::spawn(move || block_on(directory.enter(&env, TIMEOUT)).unwrap());
    pause(Duration::from_millis(100));
    drop(lock);
    assert!(matches!(waiting.join().unwrap(), Entered::Holder(_)));
}

#[test]
fn a_socket_left_behind_is_replaced() {
    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    std::fs::write(path.join("cellar.sock"), "").unwrap();
    assert!(directory.connect().unwrap().is_none(), "nobody listens");
    let _server = serve(&directory);
    assert!(directory.connect().unwrap().is_some());
}

#[test]
fn a_client_that_goes_away_ends_only_its_own_request() {
    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    let server = serve(&directory);
    let mut client = directory.connect().unwrap().expect("it answers");
    let words = vec!["echo".to_owned(), "x".repeat(10 << 20)];
    let request = Request { words, body: Vec::new() };
    let refused = client.call(request, &mut |_| Err(Error::new(1013, "cancelled")));
    assert_eq!(refused.unwrap_err().number(), 1013);
    drop(client);
    block_on(server.drain());
}

#[test]
fn a_server_that_ends_is_told_to_its_client() {
    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    let handler: Handler = Arc::new(|_, _| Box::pin(std::future::pending()));
    let lock = directory.try_lock().unwrap().expect("nobody has it");
    let server = lock.serve(threads(), "0.1.0", handler).unwrap();
    assert_eq!(server.lock().directory().path(), path);
    drop(server);
    assert!(directory.connect().unwrap().is_none());
}

#[test]
fn a_statement_hears_that_its_client_went_away() {
    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    let (heard, until_heard) = std::sync::mpsc::channel();
    let heard = Arc::new(std::sync::Mutex::new(heard));
    let handler: Handler = Arc::new(move |_, responder| {
        let heard = heard.lock().unwrap().clone();
        Box::pin(async move {
            responder.gone().await;
            heard.send(()).unwrap();
            1
        })
    });
    let lock = directory.try_lock().unwrap().expect("nobody has it");
    let server = lock.serve(threads(), "0.1.0", handler).unwrap();
    let mut stream = UnixStream::connect(short(&path)).unwrap();
    Frame::read(&mut stream).unwrap().expect("hello");
    Frame::Request(Request::default()).write(&mut stream).unwrap();
    drop(stream);
    until_heard.recv_timeout(Duration::from_secs(10)).expect("it hears");
    block_on(server.drain());
}

/// A path to the socket that is short enough, as anybody else would reach it.
fn short(path: &Path) -> PathBuf {
    let link = path.parent().expect("a parent").join("s");
    std::os::unix::fs::symlink(path, &link).unwrap();
    link.join("cellar.sock")
}

/// Says `hello` to one client in the place of a server.
fn impostor(path: &Path, hello: Option<Hello>) -> thread::JoinHandle<()> {
    let listener = UnixListener::bind(short(path)).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        if let Some(hello) = hello {
            Frame::Hello(hello).write(&mut stream).unwrap();
        }
    })
}

#[test]
fn another_version_is_told_and_a_connection_without_hello_is_no_answer() {
    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    let hello = Hello { protocol: 99, version: "9.9".into(), pid: 7 };
    let other = impostor(&path, Some(hello));
    let error = directory.connect().unwrap_err();
    assert_eq!(error.number(), 70104);
    assert!(error.to_string().contains("process 7 (Cellar 9.9) speaks protocol 99"), "{error}");
    other.join().unwrap();

    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    let silent = impostor(&path, None);
    assert!(directory.connect().unwrap().is_none());
    silent.join().unwrap();
}

#[test]
fn nonsense_on_the_socket_is_refused_and_harms_nobody() {
    let (_parent, path) = far_away();
    let directory = Directory::create(&path).unwrap();
    let server = serve(&directory);
    let mut stream = UnixStream::connect(short(&path)).unwrap();
    Frame::read(&mut stream).unwrap().expect("hello");
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let Some(Frame::Stderr(text)) = Frame::read(&mut stream).unwrap() else { panic!("told") };
    assert!(String::from_utf8(text).unwrap().starts_with("CELLAR-70113: request not understood"));
    assert_eq!(Frame::read(&mut stream).unwrap(), Some(Frame::Exit(1)));
    block_on(server.drain());
}
