// Package powercut is a file system for a process that is to lose its power: what it has not synced can be taken away from it
// after it was killed. It is for tests; no shipped binary has it (cmd/understudy takes it in under the build tag powerloss).
//
// Everything goes to the real files at once, so that whoever reads sees it and a mere kill -9 loses nothing, as with the
// kernel's cache. But first it is written down, in a folder .power beside the files, what was there before: of a file's
// bytes until that file is synced, of a name until its folder is. Cut, called once the process is dead, puts back what was there, all
// of it or some. What is not synced stays so over a kill -9 and a new process.
//
// Guarantees: after Cut each file has what it had at its last Sync or SyncData that succeeded (or SyncTo that says that it was a
// full one), and for each block of 512 or of 4,096 bytes that was written to since, what any of the writes
// since then left there. A file that has grown has its former length or one up to which such a block reaches; what is in between
// and not kept is zero. A folder's names are as at its last sync, or as after any later change of a name, all before
// it included; each folder for itself. A synced file whose name was not is gone. What is kept is drawn from the seed.
//
// Not guaranteed: an order between folders, or between names and bytes, which some real file systems keep: this one is meaner.
// Files that are changed without it (os.WriteFile) are as if synced, and must not be removed or replaced without it if they
// were made with it. A rename from one folder to another is refused. Preallocation is not undone: it shows nowhere.
//
// Concurrency: FS as vfs.FS asks; one process at a time. A sync holds up writes to the same file, and a folder's sync all changes of
// names. Cut is alone.
package powercut
