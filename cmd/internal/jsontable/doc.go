// Package jsontable is AMQP field tables as the JSON of the admin API and of definitions files.
//
// Guarantees: what Encode has read Decode gives back: objects, lists, texts, truth values, null, whole numbers of 64 bits and
// doubles. Encode's tables keep to the limits of package message, and have their keys in order.
//
// Not guaranteed: types that JSON has not. Octets are read as text, timestamps as RFC 3339, small integers as 64 bits, as in
// RabbitMQ's API.
//
// Concurrency: plain functions.
package jsontable
