package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
)

// What of a client's certificate names its user, as RabbitMQ's ssl_cert_login_from has it.
const (
	DistinguishedName = "distinguished_name"
	CommonName        = "common_name"
)

// UserOf answers the user that a certificate names: the whole subject, in the order of RFC 4514 (CN=bob,OU=x,O=org: the
// reverse of how it is written in the certificate, as RabbitMQ has it), or its common name. "" if it has none.
func UserOf(cert *x509.Certificate, from string) string {
	if from == CommonName {
		return cert.Subject.CommonName
	}
	var subject pkix.RDNSequence // as it stands; pkix.Name has an order of its own
	if rest, err := asn1.Unmarshal(cert.RawSubject, &subject); err != nil || len(rest) > 0 {
		return ""
	}
	return subject.String()
}
