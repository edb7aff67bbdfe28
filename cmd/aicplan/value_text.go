package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

const afterApply = "(known after apply)"

// valueText formats a value as JSON. Stages, runtimes and systems appear as their names, and unknown
// values as words.
func valueText(v cty.Value) string {
	if text, ok := valueWord(v); ok {
		return text
	}
	var b strings.Builder
	writeValue(&b, v)
	return b.String()
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
	if v.Type() == cty.Number {
		return hugeNumber(v.AsBigFloat())
	}
	if v.Type().IsCapsuleType() {
		return "(" + v.Type().FriendlyName() + ")", true
	}

	return "", false
}

// maxExponent limits the size of numbers that are written in full. The limit of float64 is 1024.
const maxExponent = 1100

func hugeNumber(f *big.Float) (string, bool) {
	if f.IsInf() {
		return "(infinite)", true
	}
	if e := f.MantExp(nil); e > maxExponent || e < -maxExponent {
		// Formatting its digits would take minutes.
		return fmt.Sprintf("(about 10 to the power of %.0f)", float64(e)*math.Log10(2)), true
	}
	return "", false
}

func writeValue(b *strings.Builder, v cty.Value) {
	if word, ok := valueWord(v); ok {
		writeJSON(b, word)
		return
	}

	t := v.Type()
	switch {
	case v.IsNull():
		b.WriteString("null")

	case t == cty.String:
		writeJSON(b, v.AsString())

	case t == cty.Bool:
		writeJSON(b, v.True())

	case t == cty.Number:
		b.WriteString(v.AsBigFloat().Text('f', -1))

	case t.IsObjectType() || t.IsMapType():
		sep := "{"
		for it := v.ElementIterator(); it.Next(); sep = "," {
			k, e := it.Element()
			b.WriteString(sep)
			writeJSON(b, k.AsString())
			b.WriteString(":")
			writeValue(b, e)
		}
		closeAfter(b, sep, "{", "}")

	default:
		sep := "["
		for it := v.ElementIterator(); it.Next(); sep = "," {
			_, e := it.Element()
			b.WriteString(sep)
			writeValue(b, e)
		}
		closeAfter(b, sep, "[", "]")
	}
}

// closeAfter closes a collection. An empty collection is opened first.
func closeAfter(b *strings.Builder, sep, first, last string) {
	if sep == first {
		b.WriteString(first)
	}
	b.WriteString(last)
}

func writeJSON(b *strings.Builder, v any) {
	var tmp strings.Builder
	enc := json.NewEncoder(&tmp)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // cannot happen for strings and bools
	}
	b.WriteString(strings.TrimSuffix(tmp.String(), "\n"))
}
