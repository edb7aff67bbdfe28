package aiperf

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"aicplan/cudaops/load/openai"
)

// unpacked are the fields of a record that neither its line nor its values need.
var unpacked = map[string]bool{"URL": true, "Model": true, "Items": true, "Images": true, "Text": true,
	"ReasoningText": true, "Ended": true}

func TestReadPackedReturnsAllOtherFields(t *testing.T) {
	full := Record{Times: []int64{1e18, 1e18 + 5, 1e18 - 5},
		Usage: &openai.Usage{Prompt: 1, Completion: 2, Total: 3, Reasoning: -1, Cached: -1},
		Err:   &Failure{Code: 500, Type: "t", Message: "\x00 é"}}
	v := reflect.ValueOf(&full).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case unpacked[v.Type().Field(i).Name]:
		case f.CanInt():
			f.SetInt(int64(i+1) << 40)
		case f.Kind() == reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		}
	}

	want := append(records(), full, Record{FirstOutput: -1, Input: -1, Times: []int64{}})
	var b []byte
	for i := range want {
		b = AppendPacked(b, &want[i])
	}

	in := bufio.NewReader(bytes.NewReader(b))
	var got Record
	for i := range want {
		if err := ReadPacked(in, &got); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		for k := range v.NumField() {
			name := v.Type().Field(k).Name
			a, b := reflect.ValueOf(got).Field(k).Interface(), reflect.ValueOf(want[i]).Field(k).Interface()
			if !unpacked[name] && !reflect.DeepEqual(a, b) {
				t.Errorf("record %d: %s is %v, want %v", i, name, a, b)
			}
		}
	}

	if err := ReadPacked(in, &got); !errors.Is(err, io.EOF) {
		t.Errorf("behind the last record: %v, want EOF", err)
	}
	if err := ReadPacked(bufio.NewReader(bytes.NewReader(b[:30])), &got); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a record: %v, want an unexpected EOF", err)
	}
}
