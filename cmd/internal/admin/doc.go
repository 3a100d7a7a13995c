// Package admin is the HTTP face of a node: the API under /api with RabbitMQ's field names, paging and status codes,
// /health/live and /health/ready, /metrics, and /debug/pprof for callers on the same machine.
//
// Guarantees: everything under /api needs a password (basic auth); bodies are bounded; a request that a browser sends
// from another origin, or with another content type than JSON, changes nothing. Every error has a JSON body with
// "error" and "reason". What a caller may see and do is told by its tags, as in RabbitMQ: the users and the cluster are
// for administrators to change, and callers who are neither administrator nor monitoring see the vhosts alone that they
// have permissions in.
//
// Not guaranteed: that a listing is one cut over several vhosts; each vhost by itself is.
//
// Concurrency: a Handler serves any number of requests; what Options names must be safe for that.
package admin
