package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"testing"
)

func TestUsersOfCertificates(t *testing.T) {
	subject := pkix.RDNSequence{
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "Org, Inc."}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 11}, Value: "ops"}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "bob"}},
	}
	raw, err := asn1.Marshal(subject)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{RawSubject: raw}
	cert.Subject.FillFromRDNSequence(&subject)
	for from, want := range map[string]string{DistinguishedName: `CN=bob,OU=ops,O=Org\, Inc.`, CommonName: "bob"} {
		if got := UserOf(cert, from); got != want {
			t.Errorf("%s: %q, want %q", from, got, want)
		}
	}
	if got := UserOf(&x509.Certificate{RawSubject: []byte("no subject")}, DistinguishedName); got != "" {
		t.Errorf("of no subject: %q", got)
	}
}
