// Package durable changes names and small files so that a power cut takes back none of it: the few steps, in the one order, that
// the data folder's parts would otherwise each spell out.
//
// Guarantees: what a call did that answered nil outlasts a power cut, names included. Replace and Rename are whole or not
// at all, whenever the power goes: before they return a reader finds the former file or the new one. MakeDir also makes
// good what an earlier MakeDir of the same folder left undone that died in its midst.
//
// Not guaranteed: which of the two there is after an error, or a cut before the call has returned. Files inside a folder that is
// renamed are as durable as they were. A temporary file (the name with ".next") may be left over; the next Replace overwrites it.
// Errors are the file system's own, which name the file or the folder.
//
// Concurrency: calls are independent; two of them on one name at a time are not to be.
package durable
