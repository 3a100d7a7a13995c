package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// envPrefix begins the variables that are settings: UNDERSTUDY_NODE_ID is node-id.
const envPrefix = "UNDERSTUDY_"

// Variable is the environment variable of a flag: UNDERSTUDY_NODE_ID of node-id.
func Variable(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Load gathers the settings: defaults, then the YAML file at path (none if ""), then environ (KEY=VALUE, as
// os.Environ), then the flags that were given. It does not validate; Validate does. Errors: a file that cannot be read,
// and every key of it that nobody knows or value of a wrong type, in one error.
func Load(flags *pflag.FlagSet, path string, environ []string) (Config, error) {
	const delimiter = "." // no key has one
	k := koanf.New(delimiter)
	known := keys()
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return Config{}, fmt.Errorf("settings file: %w", err)
		}
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return Config{}, fmt.Errorf("settings file %s: %w", path, err)
		}
	}
	if err := k.Load(env.Provider(delimiter, environment(environ, known)), nil); err != nil {
		return Config{}, fmt.Errorf("environment: %w", err)
	}
	given := posflag.ProviderWithFlag(flags, delimiter, nil, func(f *pflag.Flag) (string, any) {
		if !f.Changed || !known[f.Name] {
			return "", nil
		}
		return f.Name, posflag.FlagVal(flags, f)
	})
	if err := k.Load(given, nil); err != nil {
		return Config{}, fmt.Errorf("flags: %w", err)
	}
	return decode(k, known)
}

// environment maps UNDERSTUDY_NODE_ID to node-id. Variables that are no settings are left alone: orchestrators set
// some of their own by the name of a service.
func environment(environ []string, known map[string]bool) env.Opt {
	return env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(key, value string) (string, any) {
			key = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(key, envPrefix)), "_", "-")
			if !known[key] {
				return "", nil
			}
			return key, value
		},
	}
}

// decode lays what was given over the defaults. Unknown keys are listed together, and with the values of a wrong type.
func decode(k *koanf.Koanf, known map[string]bool) (Config, error) {
	var unknown []string
	var f Faults
	for _, key := range k.Keys() {
		if !known[key] {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		f = append(f, fmt.Errorf("no such setting: %s (understudy help serve lists them)", strings.Join(unknown, ", ")))
	}
	c := Default()
	err := k.UnmarshalWithConf("", &c, koanf.UnmarshalConf{
		Tag: "koanf",
		DecoderConfig: &mapstructure.DecoderConfig{
			Result:           &c,
			TagName:          "koanf",
			WeaklyTypedInput: true, // the environment has only text
		},
	})
	if err != nil {
		f = append(f, wrongTypes(err, k)...)
	}
	if len(f) > 0 {
		return Config{}, f
	}
	return c, nil
}

// wrongTypes names the settings whose values are of a wrong type, as Validate names those with faults.
func wrongTypes(err error, k *koanf.Koanf) (f Faults) {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return Faults{fmt.Errorf("settings: %w", err)}
	}
	for _, err := range many.Unwrap() {
		var one *mapstructure.DecodeError
		if !errors.As(err, &one) {
			f = append(f, err)
			continue
		}
		f.add(one.Name(), "%q is not %s", fmt.Sprint(k.Get(one.Name())), kindOf(one.Name()))
	}
	return f
}

// kindOf says what a setting takes.
func kindOf(key string) string {
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("koanf") == key {
			switch f.Type.Kind() {
			case reflect.String:
				return "text"
			case reflect.Bool:
				return "true or false"
			case reflect.Float64:
				return "a number"
			}
		}
	}
	return "a whole number"
}

// keys are the names of all settings.
func keys() map[string]bool {
	known := make(map[string]bool)
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		known[t.Field(i).Tag.Get("koanf")] = true
	}
	return known
}
