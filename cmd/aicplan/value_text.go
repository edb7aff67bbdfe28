package main

import (
	"encoding/json"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

const afterApply = "(known after apply)"

// valueText formats a value as JSON, in several lines if one would be longer than wide. Stages, runtimes
// and systems appear as their names, and unknown values as words.
func valueText(v cty.Value, wide int) string {
	if text, ok := valueWord(v); ok {
		return text
	}

	text := jsonText(v, "")
	if len(text) >= wide && v.CanIterateElements() {
		return jsonText(v, "  ")
	}
	return text
}

func jsonText(v cty.Value, indent string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(indent, indent)
	if err := enc.Encode(jsonValue(v)); err != nil {
		panic(err) // cannot happen for words, numbers and collections of them
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// valueWord returns the word for a value that JSON cannot represent. It returns false for other values.
func valueWord(v cty.Value) (string, bool) {
	if v != cty.NilVal && v.IsMarked() {
		return textutil.Redacted, true
	}
	if v == cty.NilVal || !v.IsKnown() {
		return afterApply, true
	}
	if v.IsNull() {
		return "", false
	}
	if r, err := stage.RefOf(v); err == nil {
		return r.Address, true
	}
	if r, err := stage.RuntimeOf(v); err == nil {
		return r.Address, true
	}
	if s, err := stage.SystemOf(v); err == nil {
		return "system " + s.Name, true
	}
	if v.Type().IsCapsuleType() {
		return "(" + v.Type().FriendlyName() + ")", true
	}

	return "", false
}

// jsonValue converts a value for JSON. Values that JSON cannot represent become words.
func jsonValue(v cty.Value) any {
	return stage.ToGo(v, func(v cty.Value) (any, bool) { return valueWord(v) })
}
