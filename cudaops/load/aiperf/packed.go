package aiperf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"

	"aicplan/cudaops/load/openai"
)

// AppendPacked appends the fields of a record that its line and its values need, in a tenth of the size of the line.
// Writing lines while a load runs takes a quarter of the client's processor time.
func AppendPacked(b []byte, r *Record) []byte {
	p := packing{b: b}
	p.record(r)
	return p.b
}

// ReadPacked reads a record that AppendPacked appended. It returns io.EOF if there is none.
func ReadPacked(in *bufio.Reader, r *Record) error {
	if _, err := in.Peek(1); err != nil {
		return err
	}

	*r = Record{Times: r.Times[:0]}
	p := packing{in: in}
	p.record(r)
	if errors.Is(p.err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return p.err
}

// packing appends values to b, or reads them if in is not nil.
type packing struct {
	b   []byte
	in  *bufio.Reader
	err error
}

func (p *packing) record(r *Record) {
	for _, v := range [...]*string{&r.ID, &r.Correlation, &r.Conversation} {
		p.text(v)
	}
	for _, v := range [...]*int{&r.Number, &r.Turn, &r.FirstOutput, &r.Asked, &r.Input, &r.Output, &r.Reasoning,
		&r.Reads} {
		p.number(v)
	}
	for _, v := range [...]*bool{&r.Warmup, &r.Cancelled, &r.Cut, &r.Reused, &r.Reasoned} {
		p.flag(v)
	}
	for _, v := range [...]*int64{&r.Connect, &r.BytesIn, &r.BytesOut} {
		p.since(v, 0)
	}

	last := int64(0)
	for _, v := range [...]*int64{&r.Credit, &r.Free, &r.Start, &r.Sent, &r.Ack, &r.Last, &r.Finish} {
		p.since(v, last)
		last = *v
	}

	n := len(r.Times)
	p.number(&n)
	for i := 0; i < n && p.err == nil; i++ {
		if p.in != nil {
			r.Times = append(r.Times, 0)
		}
		p.since(&r.Times[i], last)
		last = r.Times[i]
	}

	if has := r.Usage != nil; p.flag(&has) {
		if p.in != nil {
			r.Usage = &openai.Usage{}
		}
		u := r.Usage
		for _, v := range [...]*int{&u.Prompt, &u.Completion, &u.Total, &u.Reasoning, &u.Cached} {
			p.number(v)
		}
	}

	if has := r.Err != nil; p.flag(&has) {
		if p.in != nil {
			r.Err = &Failure{}
		}
		p.number(&r.Err.Code)
		p.text(&r.Err.Type)
		p.text(&r.Err.Message)
	}
}

// since appends or reads a number as its difference to another.
func (p *packing) since(v *int64, base int64) {
	switch {
	case p.in == nil:
		p.b = binary.AppendVarint(p.b, *v-base)
	case p.err == nil:
		*v, p.err = binary.ReadVarint(p.in)
		*v += base
	}
}

func (p *packing) number(v *int) {
	n := int64(*v)
	p.since(&n, 0)
	*v = int(n)
}

func (p *packing) flag(v *bool) bool {
	n := 0
	if *v {
		n = 1
	}
	p.number(&n)
	*v = n != 0
	return *v
}

func (p *packing) text(s *string) {
	n := len(*s)
	p.number(&n)
	switch {
	case p.in == nil:
		p.b = append(p.b, *s...)
	case p.err == nil:
		b := make([]byte, n)
		_, p.err = io.ReadFull(p.in, b)
		*s = string(b)
	}
}
