package worker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Option declares one attribute of a runtime block, or of a block inside it. The package of a host
// declares its options once, with the variables that they are decoded into. Plans, docs and
// completion use the same declaration.
type Option struct {
	// Name is the attribute's name in plans and in Init.Options.
	Name string
	// Into points to the variable that Decode sets. Its type is the option's type: string, bool, int,
	// float64, []string, []int, a map of strings or float64, Duration, json.RawMessage for any value, or a
	// pointer to one of them, which stays nil if the option is not set.
	Into any
	// Doc is one sentence without a full stop.
	Doc string
	// Default is the value if a plan sets none. It has the type that Into points to. Nil leaves the variable
	// unchanged.
	Default any
	// DefaultDoc describes a default that depends on other values.
	DefaultDoc string
	// OneOf lists the allowed values of a text. Nil allows any.
	OneOf []string
	// Min and Max are the bounds of a number. They apply if Max is above Min.
	Min, Max float64
	// Check returns an error for an invalid text. It may be nil.
	Check func(text string) error
	// Required is set if every plan must set the option.
	Required bool
	// NotInKey is set if the value does not change the meaning of rows.
	NotInKey bool
	// Engine is set if the engine uses the option and workers do not receive it.
	Engine bool
	// Block contains the options of a nested block. Into is not used then.
	Block []Option
}

// Duration is an option with a time such as "90s" or "15m".
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler. It returns an error unless the time is positive.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is no time such as \"90s\" or \"15m\"", text)
	}

	*d = Duration(v)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Decode sets the variables of the options to their defaults and then to the values, as in Init.Options.
// It returns an error with the option's name for values that the options do not allow.
func Decode(options []Option, values map[string]any) error {
	byName := map[string]Option{}
	for _, o := range options {
		byName[o.Name] = o
		if err := o.reset(); err != nil {
			return err
		}
	}

	for _, name := range slices.Sorted(maps.Keys(values)) {
		o, ok := byName[name]
		if !ok {
			return fmt.Errorf("there is no option %q; there are %s", name,
				strings.Join(slices.Sorted(maps.Keys(byName)), ", "))
		}

		if o.Engine || values[name] == nil {
			continue
		}

		if err := o.set(values[name]); err != nil {
			return err
		}
	}

	for _, o := range options {
		if o.Required && values[o.Name] == nil {
			return fmt.Errorf("option %s is not set: %s", o.Name, o.Doc)
		}
	}

	return nil
}

// reset sets the option's variable to its default.
func (o *Option) reset() error {
	for _, in := range o.Block {
		if err := in.reset(); err != nil {
			return err
		}
	}

	if o.Default == nil || o.Into == nil {
		return nil
	}

	return o.assign(o.Default)
}

// set sets the option's variable to a value of a plan.
func (o *Option) set(value any) error {
	if o.Block != nil {
		values, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("option %s is %v; it must be a block", o.Name, value)
		}

		if err := Decode(o.Block, values); err != nil {
			return fmt.Errorf("%s: %w", o.Name, err)
		}

		return nil
	}

	if text, ok := value.(string); ok {
		if o.OneOf != nil && !slices.Contains(o.OneOf, text) {
			return fmt.Errorf("option %s is %q; it must be one of %s", o.Name, text, strings.Join(o.OneOf, ", "))
		}

		if o.Check != nil {
			if err := o.Check(text); err != nil {
				return fmt.Errorf("option %s: %w", o.Name, err)
			}
		}
	}

	return o.assign(value)
}

// assign converts a value through JSON to the type of the option's variable, and checks its bounds.
func (o *Option) assign(value any) error {
	raw, err := json.Marshal(value)
	if err == nil && o.Into != nil {
		err = json.Unmarshal(raw, o.Into)
	}

	if err != nil {
		return fmt.Errorf("option %s is %s; it must be %s", o.Name, raw, o.TypeName())
	}

	var n float64
	if o.Max > o.Min && (json.Unmarshal(raw, &n) != nil || n < o.Min || n > o.Max) {
		return fmt.Errorf("option %s is %s; it must be %s from %v to %v", o.Name, raw, o.TypeName(), o.Min, o.Max)
	}

	return nil
}

// TypeName describes the type of the option's values.
func (o *Option) TypeName() string {
	switch o.Into.(type) {
	case *string, **string:
		return "a text"
	case *bool, **bool:
		return "true or false"
	case *int, **int:
		return "a whole number"
	case *float64, **float64:
		return "a number"
	case *Duration, **Duration:
		return `a time such as "90s" or "15m"`
	case *[]string:
		return "a list of texts"
	case *[]int:
		return "a list of whole numbers"
	case *map[string]string:
		return "a map of texts"
	case *map[string]float64:
		return "a map of numbers"
	}

	return "a value"
}

// DefaultText formats the option's default as in a plan. It returns "" if there is none.
func (o *Option) DefaultText() string {
	switch d := o.Default.(type) {
	case nil:
		return o.DefaultDoc
	case []string:
		return strings.Join(d, ", ")
	case string:
		return fmt.Sprintf("%q", d)
	case Duration:
		return fmt.Sprintf("%q", shortTime(time.Duration(d)))
	default:
		return fmt.Sprint(d)
	}
}

// shortTime formats a time without its zero parts: "15m" instead of "15m0s".
func shortTime(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}

	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}

	return text
}

// OptionNames returns the names of options.
func OptionNames(options []Option) []string {
	var out []string
	for _, o := range options {
		out = append(out, o.Name)
	}

	return out
}
