package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
)

// forge is a command for scripts that changes content with a checksum and updates the checksum.
//
//	forge record FILE OLD NEW   in a stage record
//	forge entry FILE OLD NEW    in every entry of a segment of a journal
//	forge object STATE TEXT     stores an object and prints its digest
func forge() {
	if err := forged(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func forged(args []string) error {
	if len(args) == 3 && args[0] == "object" {
		name := fmt.Sprintf("%x", sha256.Sum256([]byte(args[2])))
		dir := args[1] + "/objects/" + name[:2]
		fmt.Print("sha256:", name)
		return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(dir+"/"+name, []byte(args[2]), 0o644))
	}
	if len(args) != 4 {
		return fmt.Errorf("forge: %q", args)
	}
	data, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	old, now := []byte(args[2]), []byte(args[3])
	change := forgedRecord
	if args[0] == "entry" {
		change = forgedEntries
	}
	if data, err = change(data, old, now); err != nil {
		return fmt.Errorf("forge: %s: %w", args[1], err)
	}
	return os.WriteFile(args[1], data, 0o644)
}

func forgedRecord(data, old, now []byte) ([]byte, error) {
	var f map[string]json.RawMessage
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if !bytes.Contains(f["record"], old) {
		return nil, fmt.Errorf("it has no %q", old)
	}
	f["record"] = bytes.Replace(f["record"], old, now, 1)
	f["digest"] = fmt.Appendf(nil, `"sha256:%x"`, sha256.Sum256(f["record"]))
	return json.Marshal(f)
}

// forgedEntries knows the format of segments: see engine/checkpoint/frame.go.
func forgedEntries(data, old, now []byte) ([]byte, error) {
	const magic, header = 8, 12
	if !bytes.Contains(data, old) {
		return nil, fmt.Errorf("it has no %q", old)
	}

	out := bytes.Clone(data[:magic])
	for at := magic; at < len(data); {
		end := at + header + int(binary.LittleEndian.Uint32(data[at+4:]))
		body := bytes.ReplaceAll(data[at+header:end], old, now)

		frame := binary.LittleEndian.AppendUint32(bytes.Clone(data[at:at+4]), uint32(len(body)))
		sum := crc32.Checksum(slices.Concat(frame[4:], body), crc32.MakeTable(crc32.Castagnoli))
		out = append(binary.LittleEndian.AppendUint32(append(out, frame...), sum), body...)
		at = end
	}
	return out, nil
}
