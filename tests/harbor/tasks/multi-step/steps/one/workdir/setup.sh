#!/bin/bash
echo set up >> seed
