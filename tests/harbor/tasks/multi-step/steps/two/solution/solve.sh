#!/bin/bash
[[ -e /one && ! -e /tests/test.sh ]] && echo two > /two
