#!/bin/bash
cp /tmp/serving /tmp/answer
