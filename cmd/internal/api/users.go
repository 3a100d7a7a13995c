package api

import (
	"encoding/json"
	"strings"
)

// User is one row of /api/users.
type User struct {
	Name             string         `json:"name"`
	PasswordHash     string         `json:"password_hash"`
	HashingAlgorithm string         `json:"hashing_algorithm"`
	Tags             Tags           `json:"tags"`
	Limits           map[string]int `json:"limits"`
}

// Tags are a user's. They are read from a list or from one string with commas.
type Tags []string

// UnmarshalJSON reads both forms.
func (t *Tags) UnmarshalJSON(b []byte) error {
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		var text string
		if json.Unmarshal(b, &text) != nil {
			return err
		}
		list = strings.Split(text, ",")
	}
	*t = Tags{}
	for _, tag := range list {
		if tag = strings.TrimSpace(tag); tag != "" {
			*t = append(*t, tag)
		}
	}
	return nil
}

// NewUser is the body of PUT /api/users/NAME. With neither Password nor PasswordHash a user that is there keeps its
// password; with an empty PasswordHash nobody logs in with one.
type NewUser struct {
	Name             string  `json:"name,omitempty"` // as in the path
	Password         *string `json:"password,omitempty"`
	PasswordHash     *string `json:"password_hash,omitempty"`
	HashingAlgorithm string  `json:"hashing_algorithm,omitempty"` // of PasswordHash
	Tags             *Tags   `json:"tags,omitempty"`              // none where left out, as in RabbitMQ
}

// BulkDelete is the body of POST /api/users/bulk-delete.
type BulkDelete struct {
	Users []string `json:"users"`
}

// Permission is one row of /api/permissions, and the body of PUT /api/permissions/VHOST/USER.
type Permission struct {
	User      string `json:"user"`
	Vhost     string `json:"vhost"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// TopicPermission is one row of /api/topic-permissions, and the body of PUT /api/topic-permissions/VHOST/USER.
type TopicPermission struct {
	User     string `json:"user"`
	Vhost    string `json:"vhost"`
	Exchange string `json:"exchange"`
	Write    string `json:"write"`
	Read     string `json:"read"`
}

// UserLimits is one row of /api/user-limits.
type UserLimits struct {
	User  string         `json:"user"`
	Value map[string]int `json:"value"`
}

// Limit is the body of PUT /api/user-limits/USER/LIMIT; below 0 is no limit.
type Limit struct {
	Value int `json:"value"`
}
